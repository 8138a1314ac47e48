"""Attacks on a synthetic release, one file each. What they find is internal: it is computed from confidential data."""
