"""Numbers: seeds, precision, initialisation, ragged arrays."""
