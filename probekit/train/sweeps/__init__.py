"""Sweeps: many training runs that share their reads, recorded as they finish, resumable.

The names of ``__init__.pyi`` load on first use, so that protocols and specs do not import torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
