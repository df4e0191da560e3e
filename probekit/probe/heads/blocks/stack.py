"""n transformer blocks over the subwords of ragged windows."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from probekit.probe.heads.blocks.attention_windows import group_by_length

_PLAIN = 512
"""Longest windows, in subwords, whose attention weights are kept for the backward pass on a CPU."""


class BlockStack(nn.Module):
    """Blocks that turn the states of whole windows into new ones of the same width.

    They always run without dropout: that of transformers draws from the global generator, which
    heads trained side by side share.

    Attributes:
        model: a model of the backbone's family whose embeddings and final norm do nothing.
        dim: width of the states.
    """

    def __init__(self, model: nn.Module, dim: int) -> None:
        """Keep the model, in evaluation mode."""
        super().__init__()
        self.model = model
        self.dim = dim
        self.train()

    @property
    def first_block(self) -> nn.Module:
        """The first of the blocks, which lie in the model's first list of modules."""
        return next(part for part in self.model.modules() if isinstance(part, nn.ModuleList))[0]

    def train(self, mode: bool = True) -> "BlockStack":
        """Switch the mode; the blocks' dropout stays off."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(
        self, hidden: Float[Tensor, "T dim"], lengths: Int64[Tensor, " windows"]
    ) -> Float[Tensor, "T dim"]:
        """Return the last block's states.

        Args:
            hidden: states of every subword, window after window, unpadded.
            lengths: subwords of each window; they sum to T. A window does not see the others.
        """
        hidden = hidden.float() if hidden.element_size() < 4 else hidden
        groups = group_by_length(lengths.tolist(), hidden.device)
        outputs, places = [], []
        for group in groups:
            batch = hidden.index_select(0, group.take.flatten()).view(*group.take.shape, -1)
            states = self._run(batch, group.mask)
            outputs.append(states.flatten(0, 1).index_select(0, group.real))
            places.append(group.take.flatten().index_select(0, group.real))
        return _in_order(outputs, places, hidden)

    def _run(
        self,
        batch: Float[Tensor, "windows time dim"],
        mask: Int64[Tensor, "windows time"] | None,
    ) -> Float[Tensor, "windows time dim"]:
        with _attention(batch), _entering(self.first_block, batch):
            output: Any = self.model(inputs_embeds=batch, attention_mask=mask, return_dict=True)
        return output.last_hidden_state


@contextmanager
def _entering(block: nn.Module, states: Float[Tensor, "windows time dim"]) -> Iterator[None]:
    """Hand states to a block as they are.

    Some families multiply what comes in place of embeddings (Granite), or add positions to it.
    """

    def replace(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if given:
            return (states, *given[1:]), named
        return given, named | {next(iter(signature(module.forward).parameters)): states}

    handle = block.register_forward_pre_hook(replace, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _attention(batch: Float[Tensor, "windows time dim"]) -> AbstractContextManager[None]:
    """Return a context in which attention is computed in the way that suits the batch.

    On a CPU the backward pass of PyTorch's fused attention alone takes almost as long as all the
    products of a block; attention with its weights written out has no such pass. Its memory grows
    with the square of the length, so long windows keep the fused one.
    """
    trained = torch.is_grad_enabled() and batch.device.type == "cpu"
    return sdpa_kernel(SDPBackend.MATH) if trained and batch.shape[1] <= _PLAIN else nullcontext()


def _in_order(outputs: Sequence[Tensor], places: Sequence[Tensor], like: Tensor) -> Tensor:
    """Return the groups' states, each at its place in ``hidden``."""
    if not outputs:
        return like
    joined, order = torch.cat(list(outputs)), torch.cat(list(places))
    return joined.index_select(0, order.argsort())
