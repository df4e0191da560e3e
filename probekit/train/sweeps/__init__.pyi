from .run import fit, sweep

__all__ = [
    "fit",
    "sweep",
]
