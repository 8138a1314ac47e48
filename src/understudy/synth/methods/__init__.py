"""Methods that make synthetic tables, one file each, and nothing else."""
