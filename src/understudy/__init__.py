"""Differentially private synthetic data."""
