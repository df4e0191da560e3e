"""Fusion heads: frozen features of several layers in, one vector per row out.

To add a head, write one file with a `HeadSpec` and its `FusionHead`, and one line in ``HEADS``
(``named.py``). What ``__init__.pyi`` names loads on first use: the names of heads cost nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
