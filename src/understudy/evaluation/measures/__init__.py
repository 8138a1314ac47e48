"""Families of utility measures, one file each, and nothing else."""
