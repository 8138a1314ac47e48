"""From coded rows to counts: what every engine shares."""
