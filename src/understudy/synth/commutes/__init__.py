"""Methods for commuting tables, a registry of their own: they plan from places and run through the flow gate."""
