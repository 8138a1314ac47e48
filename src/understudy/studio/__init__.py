"""The studio: a local page for a steward, from a file to a signed release. It calls the verbs and nothing below."""
