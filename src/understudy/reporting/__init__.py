"""Pages for people. Each is one file that opens from the disk and needs no network."""
