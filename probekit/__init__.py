"""probekit: cache every layer of a frozen transformer once, then probe it from the cache.

The public names stand in ``__init__.pyi``. They load on first use: ``import probekit`` is quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
