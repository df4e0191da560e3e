"""Features: rows of a cache entry joined with the labels of one column.

The names of ``__init__.pyi`` load on first use, so that a task and its entries are found without
torch (`location`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
