"""Training from the cache: samples, order, groups of heads side by side."""
