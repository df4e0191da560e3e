"""What heads read besides rows: the subwords of windows, or the tokens of whole texts."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.numbers import Ragged
from probekit.base.tensors import full, send


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenStates:
    """States of every subword of some windows, and which of them make up each row.

    Attributes:
        hidden: one layer's states, window after window, specials included and unpadded.
        lengths: subwords of each window; they sum to T. Windows do not see each other.
        source: positions in ``hidden`` that rows are made of.
        row: the row that each source belongs to, ascending. A row with several sources is their
            mean; a row without any (a word that the tokenizer deletes) is zeros.
        n_rows: number of rows.
    """

    hidden: Float[Tensor, "T dim"]
    lengths: Int64[Tensor, " windows"]
    source: Int64[Tensor, " P"]
    row: Int64[Tensor, " P"]
    n_rows: int

    @property
    def device(self) -> torch.device:
        """Where the states are."""
        return self.hidden.device

    @classmethod
    def of(
        cls,
        hidden: Float[Tensor, "T dim"],
        *,
        windows: Int64[np.ndarray, " windows"],
        sources: Ragged,
        starts: Int64[np.ndarray, " examples"],
        rows: Int64[np.ndarray, " examples"],
    ) -> "TokenStates":
        """Return the states of examples that lie one after the other, on the states' device.

        Args:
            hidden: their subwords.
            windows: subwords of each window.
            sources: which subwords of its example make up each row.
            starts: the first subword of each example.
            rows: how many rows each example has.
        """
        shift = np.repeat(np.repeat(starts, rows), sources.lengths)
        row = np.repeat(np.arange(len(sources.lengths)), sources.lengths)
        arrays = {"lengths": windows, "source": sources.values + shift, "row": row}
        sent = {name: send(torch.from_numpy(a), hidden.device) for name, a in arrays.items()}
        return cls(hidden=hidden, n_rows=len(sources.lengths), **sent)

    def pool(self, states: Float[Tensor, "T width"]) -> Float[Tensor, "{self.n_rows} width"]:
        """Return one row per word of ``states``, which lie as ``hidden`` does; in float32."""
        # The words "un|likely" and "." and one that the tokenizer deletes, in the window
        # [CLS] un likely . [SEP], which is subwords 0 to 4:
        #
        #   source  1 2 3        subwords that rows are made of: no specials
        #   row     0 0 1        "un" and "likely" make row 0, "." row 1; nothing makes row 2
        #   total   s1+s2, s3, 0       count  2 1 0, at least 1
        picked = full(states.index_select(0, self.source))
        if not len(self.source):
            return picked.new_zeros(self.n_rows, states.shape[1])
        total = picked.new_zeros(self.n_rows, states.shape[1]).index_add(0, self.row, picked)
        ones = picked.new_ones(len(self.row))
        count = picked.new_zeros(self.n_rows).index_add(0, self.row, ones)
        return total / count.clamp(min=1).unsqueeze(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class TextTokens:
    """States of the tokens of some texts, one text after the other.

    Attributes:
        states: of each token, the layers; layer-major in memory.
        bounds: text i has the tokens ``bounds[i]`` to ``bounds[i + 1]`` (excluded).
    """

    states: Float[Tensor, "T layers dim"]
    bounds: Int64[Tensor, " bounds"]

    @property
    def device(self) -> torch.device:
        """Where the states are."""
        return self.states.device

    @property
    def n_rows(self) -> int:
        """The number of texts."""
        return len(self.bounds) - 1
