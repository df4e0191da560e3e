"""Default initialisation of linear maps, drawn from a given generator and never the global one."""

import math

import torch
from torch import nn


def linear_uniform(*shape: int, fan_in: int, generator: torch.Generator) -> nn.Parameter:
    """Return a parameter drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)).

    This is what ``torch.nn.Linear`` draws for both its weight and its bias.
    """
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


def draw_parameters(module: nn.Module, fan_in: int, generator: torch.Generator) -> None:
    """Replace the module's own parameters, one after the other, by ``linear_uniform``'s.

    For modules built on the meta device, where torch's own draw nothing.
    """
    for name, parameter in list(module.named_parameters(recurse=False)):
        drawn = linear_uniform(*parameter.shape, fan_in=fan_in, generator=generator)
        setattr(module, name, drawn)


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
