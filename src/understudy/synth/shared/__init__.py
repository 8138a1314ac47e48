"""What several methods use, and the registry of methods."""
