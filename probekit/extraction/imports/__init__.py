"""Hidden states that other programs computed: read, matched with a task's text, and made entries.

The name of ``__init__.pyi`` loads on first use, so that the command line does without torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
