"""Cache maintenance: list, describe, verify, copy, convert, reduce and remove entries."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
