"""Fits solved for their optimum."""
