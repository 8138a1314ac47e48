"""The validation server: questions to a release for free, and confirmations from the data for a price."""
