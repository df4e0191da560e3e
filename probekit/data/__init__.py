"""From texts to batches of a model: subwords, windows for long texts, and what makes which rows."""
