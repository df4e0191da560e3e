"""Float32 arithmetic over layers, whatever the stored dtype and autocast state."""

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


def static_sum(
    weights: Float[Tensor, " layers"], z: Float[Tensor, "layers rows dim"]
) -> Float[Tensor, "rows dim"]:
    """Return sum_i weights_i z_i in float32, as one product of a vector and a matrix."""
    n_layers, rows, dim = z.shape
    with no_autocast(z):
        return (weights @ full(z).reshape(n_layers, rows * dim)).view(rows, dim)


def row_scores(
    query: Float[Tensor, " dim"], z: Float[Tensor, "layers rows dim"]
) -> Float[Tensor, "layers rows"]:
    """Return query . z_i for every layer and row in float32."""
    n_layers, rows, dim = z.shape
    with no_autocast(z):
        return (full(z).reshape(n_layers * rows, dim) @ query).view(n_layers, rows)


def row_sum(
    weights: Float[Tensor, "layers rows"], z: Float[Tensor, "layers rows dim"]
) -> Float[Tensor, "rows dim"]:
    """Return sum_i weights_i z_i with weights per row, in float32."""
    with no_autocast(z):
        return torch.bmm(weights.t().unsqueeze(1), full(z).transpose(0, 1)).squeeze(1)
