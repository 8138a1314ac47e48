"""From files and frames to codes, and back to values."""
