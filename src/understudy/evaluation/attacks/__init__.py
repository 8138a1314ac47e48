"""Attacks on a synthetic release, one file each, and nothing else."""
