"""The process that speaks to the network: pages and an API. It has no way to the data."""
