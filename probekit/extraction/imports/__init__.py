"""Hidden states that other programs computed: read, matched with a task's text, and made entries.

The names of ``__init__.pyi`` load on first use, so that the command line shows `ImportOptions`
without torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
