"""Measures of stored layers that need no labels, streamed from the cache.

Rows are read block by block, in float64, so that how many there are costs time and no memory. What
needs all rows side by side (the intrinsic dimension) takes a sample.
"""
