from .run import sweep
from .single import fit

__all__ = [
    "fit",
    "sweep",
]
