"""The printed numbers of published papers, computed again by this package.

Outside the installed package: ``understudy reproduce`` runs it from a checkout of the repository.
"""
