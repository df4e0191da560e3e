"""Extraction: run a frozen backbone once and write every layer's rows to the cache.

The names of ``__init__.pyi`` load on first use, so that the command line shows `ExtractOptions`
without torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
