"""The user's own data."""
