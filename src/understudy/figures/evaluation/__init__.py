"""Pictures of an evaluation, one file each; each hands back the table it drew."""
