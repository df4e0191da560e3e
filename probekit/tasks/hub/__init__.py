"""Data sets of the Hub."""
