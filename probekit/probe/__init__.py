"""What is trained: heads, decoders, their normalisation, and the fitters that train them."""
