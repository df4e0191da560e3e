"""The store: one cache entry on disk, written unit by unit and read through memory maps.

`EntryBuilder` writes an entry, `Entry` reads it, `layout` and `find` locate it under the cache
root, `checksums` checks it. The format is specified in ``cache/README.md``. The names of
``__init__.pyi`` load on first use, so that modules without tensors (`layout`, `manifest`,
`backends`) do not import torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
