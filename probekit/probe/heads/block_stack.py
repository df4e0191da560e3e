"""n transformer blocks over the subwords of ragged windows."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

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
        outputs, places = [], []
        for group in group_by_length(lengths.tolist(), hidden.device):
            batch = hidden.index_select(0, group.take.flatten()).view(*group.take.shape, -1)
            states = self._run(batch, group.mask)
            outputs.append(states.flatten(0, 1).index_select(0, group.real))
            places.append(group.take.flatten().index_select(0, group.real))
        if not outputs:
            return hidden
        return torch.cat(outputs).index_select(0, torch.cat(places).argsort())

    def _run(
        self, batch: Float[Tensor, "windows time dim"], mask: Int64[Tensor, "windows time"] | None
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


_PASS = {"cpu": 64}
_DEFAULT_PASS = 4096
"""Padded subwords that cost as much as one more pass through a block, by device.

16 sentences of CoNLL length, 768 wide, one BERT or MPNet block, forward and backward on one core:
one padded batch takes 276 to 439 ms in float32 and 103 to 125 in bfloat16, these groups 218 to 336
and 78 to 84.
"""

LARGEST = 16_384
"""Subwords of one group, padding included: what bounds memory when thousands of windows come."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Some windows as one batch, padded on the right.

    Attributes:
        take: position among all subwords for each place of the batch; padding repeats the
            window's last subword.
        mask: 1 for real subwords and 0 for padding; None where nothing is padded.
        real: places of the real subwords in the flattened batch, ascending.
    """

    take: Int64[Tensor, "windows time"]
    mask: Int64[Tensor, "windows time"] | None
    real: Int64[Tensor, " real"]


def group_by_length(lengths: Sequence[int], device: torch.device) -> list[Group]:
    """Return batches that cover every window once, the longest first.

    A batch ends where its padding would cost more than another pass, or at ``LARGEST`` subwords
    (one longer window goes alone); windows without subwords are left out.
    """
    # Windows of 9, 60 and 58 subwords on a CPU, where 64 padded subwords cost as much as a pass:
    #
    #   order    1 2 0           the longest first
    #   window 1 opens a group;  2 joins it with 60 - 58 = 2 padded subwords;  0 would need 51
    #   more, 53 of 64: it joins too, and the three are one batch of 3 x 60.
    #
    # With another window of 9 subwords the padding would be 104, so that one opens a new group.
    sizes = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    allowed = _PASS.get(device.type, _DEFAULT_PASS)
    order = [int(w) for w in np.argsort(-sizes, kind="stable") if sizes[w]]
    groups: list[list[int]] = []
    padding = 0
    for window in order:
        longest = int(sizes[groups[-1][0]]) if groups else 0
        padding += longest - int(sizes[window])
        if not groups or padding > allowed or longest * (len(groups[-1]) + 1) > LARGEST:
            groups.append([])
            padding = 0
        groups[-1].append(window)
    return [_group(starts[members], sizes[members], device) for members in groups]


def _group(
    starts: Int64[np.ndarray, " windows"],
    sizes: Int64[np.ndarray, " windows"],
    device: torch.device,
) -> Group:
    # Windows of 3 and 2 subwords, whose subwords begin at 7 and 0:
    #
    #   real    1 1 1       take   7 8 9      padding repeats a window's last subword, 1, so
    #           1 1 0              0 1 1      that it is a state like any other
    #   places of real ones in the flattened batch: 0 1 2 3 4
    #
    # flattened states [real places] are those of subwords 7 8 9 0 1; `forward` sorts them.
    places = np.arange(sizes.max())
    real = places < sizes[:, None]
    take = starts[:, None] + np.minimum(places, sizes[:, None] - 1)
    mask = None if real.all() else torch.from_numpy(real.astype(np.int64)).to(device)
    return Group(
        take=torch.from_numpy(take).to(device),
        mask=mask,
        real=torch.from_numpy(np.flatnonzero(real)).to(device),
    )
