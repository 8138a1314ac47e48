"""Methods for households: every file is one."""
