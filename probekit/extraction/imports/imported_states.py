"""States from files in the place of a model that runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone import BackboneInfo
from probekit.data.batching import PADDED, Batching
from probekit.data.token_batch import TokenBatch
from probekit.extraction.imports.matching import Matched
from probekit.extraction.imports.sequences import Sequences


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedStates:
    """A `StateSource` that reads what another program wrote, one sequence at a time.

    Attributes:
        info: the facts of the model whose states they are.
        sequences: the states.
        matched: which sequence a window is.
        layer_ids: the numbers of the sequences' layers, in their order.
        config: the model's configuration, where it is known.
    """

    info: BackboneInfo
    sequences: Sequences
    matched: Matched
    layer_ids: tuple[int, ...]
    config: dict[str, Any]

    device = torch.device("cpu")
    batching: Batching = PADDED
    pad_id = 0
    final_norm: None = None
    computed_on = "imported"

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the states."""
        return self.sequences.shape.dtype

    @property
    def compute_dtype_name(self) -> str:
        """The same as manifests write it."""
        return str(self.compute_dtype).removeprefix("torch.")

    @property
    def overflow(self) -> str:
        """Where values that are not finite come from."""
        return f"They stand so in {self.sequences.where}: have them computed again."

    def states_of(
        self, batch: TokenBatch, layers: Sequence[int]
    ) -> list[Float[Tensor, "batch time dim"]]:
        """Read the states of a batch's windows; padding is zeros."""
        shape = (*batch.input_ids.shape, self.info.dim)
        places = [self.layer_ids.index(layer) for layer in layers]
        blocks = [torch.zeros(shape, dtype=self.compute_dtype) for _ in layers]
        for row, sequence in enumerate(self.matched.sequence[batch.windows].tolist()):
            states = self.sequences.read(sequence)
            for block, place in zip(blocks, places, strict=True):
                block[row, : len(states)] = states[:, place]
        return blocks

    def config_json(self) -> dict[str, Any]:
        """Return the model's configuration."""
        return self.config
