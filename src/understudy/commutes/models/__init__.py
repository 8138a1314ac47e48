"""Public models of who lives where: gravity, rings and areas around a destination, fits to noisy counts."""
