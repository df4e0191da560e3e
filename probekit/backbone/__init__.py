"""The only code that knows a model: find it, identify it, load it, run it layer by layer.

The names of ``__init__.pyi`` load on first use, so that what needs no model (`remembered`) does not
import transformers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
