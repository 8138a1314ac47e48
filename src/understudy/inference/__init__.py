"""Valid inference from a release: exact posteriors, combining rules, and the questions analysts ask.

Everything here takes a release (anyone's) and public facts, never confidential data and never a synthesizer.
"""
