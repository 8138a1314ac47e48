"""Pictures of an evaluation, one file each. Every picture returns the table that it shows."""
