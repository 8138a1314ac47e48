"""What the methods for commuting tables share."""
