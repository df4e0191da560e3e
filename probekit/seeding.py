"""Derive independent random streams from one seed and a list of names.

A stream depends on the seed and the names alone, so adding a member to a sweep, or running
members in another order, changes no other member's draw.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed that is a function of ``seed`` and ``names`` alone."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream ``(seed, *names)``."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(derive(seed, *names)))


def torch_generator(seed: int, *names: str | int) -> torch.Generator:
    """Return a CPU torch generator for the stream ``(seed, *names)``."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *names))
