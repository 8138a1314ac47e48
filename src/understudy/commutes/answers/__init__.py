"""What a release of commutes answers: counts with ranges, profiles of areas, change between years."""
