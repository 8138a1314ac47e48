"""Kinds of release: every file is one (see release/kind.py)."""
