"""Systems that can count a confidential table, one folder or file each, and nothing else."""
