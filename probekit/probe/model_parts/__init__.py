"""Small parts of a model that an entry keeps: configuration, final norm, output head."""
