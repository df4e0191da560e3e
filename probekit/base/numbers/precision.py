"""Float32 arithmetic, whatever the stored dtype and autocast state."""

from contextlib import AbstractContextManager

import torch
from jaxtyping import Float
from torch import Tensor


def full(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x in float32; float32 and float64 pass through, without a copy."""
    return x.float() if x.element_size() < 4 else x


def operand(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return x as a matrix product with float32 weights needs it.

    Under autocast x keeps its dtype, since the product casts both sides anyway; otherwise half
    precision becomes float32.
    """
    return x if torch.is_autocast_enabled(x.device.type) else full(x)


def no_autocast(x: Tensor) -> AbstractContextManager[None]:
    """Return a context in which products on x's device keep the dtype of their operands."""
    return torch.autocast(x.device.type, enabled=False)
