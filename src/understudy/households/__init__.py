"""Households with their members, from end to end: reading, synthesis, release, checks, measures, questions."""
