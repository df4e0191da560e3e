"""Entries as Hub data set repositories: pushed, and pulled as a whole or in part."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
