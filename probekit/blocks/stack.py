"""n transformer blocks over the subwords of ragged windows."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.blocks.windows import group_by_length


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
        output: Any = self.model(inputs_embeds=batch, attention_mask=mask, return_dict=True)
        return output.last_hidden_state


def _in_order(outputs: Sequence[Tensor], places: Sequence[Tensor], like: Tensor) -> Tensor:
    """Return the groups' states, each at its place in ``hidden``."""
    if not outputs:
        return like
    joined, order = torch.cat(list(outputs)), torch.cat(list(places))
    return joined.index_select(0, order.argsort())
