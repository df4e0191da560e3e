"""Saved heads: the folder that holds one, and what it makes of new text.

The names of ``__init__.pyi`` load on first use: a sweep saves heads and needs no backbone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
