"""Commutes from end to end: who travels from where to where, synthesized, released, measured and drawn on a map."""
