"""How useful a release is, measured against the confidential data: every finding here is internal."""
