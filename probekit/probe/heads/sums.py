"""Weighted sums over the layers, in float32 whatever the stored dtype and autocast state."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from probekit.base.tensors import full, no_autocast


def static_sum(
    weights: Float[Tensor, " layers"], z: Float[Tensor, "layers rows dim"]
) -> Float[Tensor, "rows dim"]:
    """Return sum_i weights_i z_i in float32, as one product of a vector and a matrix."""
    n_layers, rows, dim = z.shape
    with no_autocast(z):
        return (weights @ full(z).reshape(n_layers, rows * dim)).view(rows, dim)


def mapped(
    z: Float[Tensor, "layers rows width"], weight: Float[Tensor, "outputs width"] | None
) -> Float[Tensor, "layers rows outputs"]:
    """Return ``weight z_i`` for every layer and row, or z itself without a weight."""
    return z if weight is None else z @ weight.to(z.dtype).t()


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
    """Return sum_i weights_i z_i with weights per row, in float32.

    A batch of products, one per row, is what a GPU wants; a CPU takes them one after the other,
    each with a copy of its row in the backward pass (``benchmarks/row_sum.py``).
    """
    with no_autocast(z):
        z = full(z)
        if z.device.type != "cpu":
            return torch.bmm(weights.t().unsqueeze(1), z.transpose(0, 1)).squeeze(1)
        total: Tensor = _RowSum.apply(weights, z)  # type: ignore[no-untyped-call]
        return total


class _RowSum(torch.autograd.Function):
    """`row_sum` layer by layer, with nothing kept but its operands."""

    @staticmethod
    def forward(
        ctx: Any, weights: Float[Tensor, "layers rows"], z: Float[Tensor, "layers rows dim"]
    ) -> Float[Tensor, "rows dim"]:
        """Return the sum."""
        ctx.save_for_backward(weights, z)
        out = weights[0].unsqueeze(1) * z[0]
        for weight, layer in zip(weights[1:], z[1:], strict=True):
            out.addcmul_(weight.unsqueeze(1), layer)
        return out

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Float[Tensor, "rows dim"]
    ) -> tuple[Float[Tensor, "layers rows"] | None, Float[Tensor, "layers rows dim"] | None]:
        """Return the gradients of the weights and, where z has one, of z."""
        weights, z = ctx.saved_tensors
        of_weights = of_z = None
        # By the weight of layer i in a row: z_i . gradient; by z_i: the weight times the gradient.
        if ctx.needs_input_grad[0]:
            of_weights, products = torch.empty_like(weights), torch.empty_like(gradient)
            for by_weight, layer in zip(of_weights, z, strict=True):
                torch.sum(torch.mul(layer, gradient, out=products), -1, out=by_weight)
        if ctx.needs_input_grad[1]:
            of_z = weights.unsqueeze(-1) * gradient
        return of_weights, of_z
