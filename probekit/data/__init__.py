"""From pre-split words to batches: alignment, windows for long texts, units and batches."""
