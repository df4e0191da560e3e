"""Dropout whose masks come from a given generator (``nn.Dropout`` draws from the global one)."""

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.errors import OptionError


def dropout(
    x: Float[Tensor, "rows width"], rate: float, generator: torch.Generator | None
) -> Float[Tensor, "rows width"]:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate).

    Raises:
        OptionError: ``rate`` is above 0 and there is no generator.
    """
    if rate == 0:
        return x
    if generator is None:
        raise OptionError(
            "dropout in training mode draws its masks from a generator: pass generator=, or "
            "call .eval() to score."
        )
    return x * dropout_mask(x, rate, generator)


def dropout_mask(
    like: Float[Tensor, "rows width"], rate: float, generator: torch.Generator
) -> Float[Tensor, "rows width"]:
    """Return what dropout multiplies with: 0 with probability ``rate``, else 1 / (1 - rate)."""
    keep = torch.empty_like(like).bernoulli_(1 - rate, generator=generator)
    return keep.mul_(1 / (1 - rate))
