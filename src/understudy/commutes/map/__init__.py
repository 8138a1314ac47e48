"""The map of a release of commutes, as one HTML file."""
