"""The process that has the data: it takes approved jobs, charges, measures and answers. It speaks to no network."""
