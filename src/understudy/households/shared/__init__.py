"""What methods for households share."""
