"""Figures from records: layer weights, curves over depth and data, classes and confusions.

The names of ``__init__.pyi`` load on first use: the names of figures do without matplotlib.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
