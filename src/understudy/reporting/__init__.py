"""Pages for people: one file each, that opens from the disk and asks nobody for anything."""
