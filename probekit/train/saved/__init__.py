"""Saved heads: the folder that holds one, and what it makes of new text."""
