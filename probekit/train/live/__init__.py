"""A model in training: what it makes rows of, and what its training takes."""
