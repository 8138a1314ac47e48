"""A run with everything that passes the gate written down, and the same run again on a neighbouring table."""
