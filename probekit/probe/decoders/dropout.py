"""Dropout whose masks come from a given generator (``nn.Dropout`` draws from the global one)."""

import torch

from probekit.errors import OptionError
from probekit.probe.decoders.contract import Fused

_STEPS = 2**16


def dropout(
    x: Fused, rate: float, generator: torch.Generator | None, *, training: bool = True
) -> Fused:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate).

    Where nothing is trained, x is returned as it is.

    Raises:
        OptionError: ``rate`` is above 0 and there is no generator.
    """
    if rate == 0 or not training:
        return x
    if generator is None:
        raise OptionError(
            "dropout in training mode draws its masks from a generator: pass generator=, or "
            "call .eval() to score."
        )
    return x * dropout_mask(x, rate, generator)


def dropout_mask(like: Fused, rate: float, generator: torch.Generator) -> Fused:
    """Return what dropout multiplies with: 0 with probability ``rate``, else 1 / (1 - rate).

    Sixteen random bits decide on an element, so the rate that is used, in the scale too, is the
    nearest of 65,536: ``bernoulli_`` takes three times as long (``benchmarks/dropout_masks.py``).
    """
    count = like.numel()
    numbers = torch.empty(-(-count // 4), dtype=torch.int64, device=like.device)
    bits = numbers.random_(-(2**63), None, generator=generator).view(torch.int16)[:count]
    dropped = min(round(rate * _STEPS), _STEPS - 1)
    keep = bits.view(like.shape) >= dropped - _STEPS // 2
    return keep.to(like.dtype).mul_(_STEPS / (_STEPS - dropped))


def check_rate(decoder: str, rate: float) -> None:
    """Raise OptionError unless a dropout rate lies in [0, 1)."""
    if not 0 <= rate < 1:
        raise OptionError(f"{decoder}: dropout must be in [0, 1), found {rate}.")
