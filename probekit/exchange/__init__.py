"""Entries pushed to a folder, a bucket or the Hub, and pulled from there, whole or in part."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
