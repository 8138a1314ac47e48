"""Methods for commuting tables: every file is one."""
