"""Plug-ins: one file for each paper. A file registers the computations of its paper's printed numbers."""
