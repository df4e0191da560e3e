"""Linear layers drawn from a given generator, and dropout that is on in training only."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probekit.base.numbers.initialization import draw_parameters
from probekit.errors import OptionError
from probekit.probe.decoders.dropout import dropout


def linear_layer(width: int, out: int, generator: torch.Generator) -> nn.Linear:
    """Return a linear layer drawn as ``torch.nn.Linear`` would, from U(-1/sqrt(width), ...).

    Args:
        width: width of the input.
        out: width of the output.
        generator: draws the weight, then the bias.
    """
    layer = nn.Linear(width, out, device="meta")  # where nn.Linear draws nothing
    draw_parameters(layer, width, generator)
    return layer


def drop(
    module: nn.Module,
    x: Float[Tensor, "rows width"],
    rate: float,
    generator: torch.Generator | None,
) -> Float[Tensor, "rows width"]:
    """Return x after dropout if the module is in training mode, else x itself."""
    return dropout(x, rate, generator) if module.training else x


def check_rate(decoder: str, rate: float) -> None:
    """Raise OptionError unless a dropout rate lies in [0, 1)."""
    if not 0 <= rate < 1:
        raise OptionError(f"{decoder}: dropout must be in [0, 1), found {rate}.")
