"""How rows are normalised before a head reads them."""
