"""What a release is worth and what it gives away, measured against the confidential data: all of it is internal."""
