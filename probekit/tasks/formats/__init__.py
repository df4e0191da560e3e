"""File formats of examples: what lies where in a file, and where it is broken."""
