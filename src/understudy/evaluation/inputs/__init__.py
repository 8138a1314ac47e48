"""What measures and attacks are given."""
