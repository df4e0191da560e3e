"""Depth LSTM: a recurrent cell that reads a row's layers from the lowest to the highest."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.base.machine import native_bfloat16
from probekit.base.numbers import draw_parameters
from probekit.base.tensors import full, no_autocast
from probekit.errors import OptionError
from probekit.probe.heads.contract import HeadSpec, LayerWeights, RowHead


@dataclass(frozen=True, kw_only=True)
class DepthLSTM(HeadSpec):
    """h = the last state of an LSTM run over z_1, ..., z_L.

    A plain cell without peepholes, as in the attempt that the paper reports.

    Attributes:
        hidden: width of the cell and of h; ``None`` is d. The paper gives none. Time grows with
            hidden (d + hidden), and this is the slowest head by far at d.
    """

    hidden: int | None = field(default=None, metadata={"unset": "(width of the states)"})

    name: ClassVar[str] = "depth-lstm"
    default_layers: ClassVar[str] = "1:"
    learning_rate: ClassVar[float] = 1e-3
    source: ClassVar[str] = "DWAtt, section 7"
    summary: ClassVar[str] = "an LSTM over the layers, lowest first"
    formula: ClassVar[str] = "LSTM(z_1, ..., z_L)_L"
    recurrent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the width."""
        if self.hidden is not None and self.hidden < 1:
            raise OptionError(f"depth-lstm: hidden must be 1 or more, found {self.hidden}.")

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> RowHead:
        """Create the module; input, then recurrent weights and biases, are drawn."""
        return DepthLSTMHead(layers, dim, self.hidden or dim, generator)


class DepthLSTMHead(RowHead):
    """Module of `DepthLSTM`."""

    per_row = True

    def __init__(
        self, layers: tuple[int, ...], dim: int, hidden: int, generator: torch.Generator
    ) -> None:
        """Draw all from U(-1/sqrt(hidden), 1/sqrt(hidden)), as ``torch.nn.LSTM`` would."""
        super().__init__(layers, dim)
        self.width = hidden
        with torch.device("meta"):  # where nn.LSTM does not draw from the global generator
            self.lstm = nn.LSTM(dim, hidden)
        draw_parameters(self.lstm, hidden, generator)

    def fuse(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows width"]:
        """Return the last hidden state; under autocast in bfloat16 where the processor has it.

        Elsewhere oneDNN has no such LSTM, and PyTorch's autocast would run cuDNN's in float16,
        which ends at 65,504.
        """
        if not z.shape[1]:  # oneDNN refuses an empty batch
            return full(z[-1])
        native = z.device.type == "cpu" and native_bfloat16()
        with nullcontext() if native else no_autocast(z):
            _, (state, _) = self.lstm(full(z))
        return full(state[-1])

    def weigh(self, z: Float[Tensor, "layers rows dim"] | None) -> LayerWeights:
        """Return each layer's share of the last cell state, row by row.

        The cell state is a sum over layers, c_L = sum_i (prod_{j>i} f_j) i_i g_i with forget gates
        f, input gates i and candidates g; a layer's share is that of the norm of its term.
        """
        assert z is not None
        with no_autocast(z):
            return LayerWeights(self.layers, self._shares(full(z)))

    def _shares(self, z: Float[Tensor, "layers rows dim"]) -> Float[Tensor, "rows layers"]:
        w_z, w_h, b_z, b_h = self.lstm.parameters()
        state = cell = z.new_zeros(z.shape[1], self.width)
        added, forget_gates = [], []
        for row in z:
            gates = functional.linear(row, w_z, b_z) + functional.linear(state, w_h, b_h)
            i, f, g, o = gates.chunk(4, -1)
            added.append(i.sigmoid() * g.tanh())
            forget_gates.append(f.sigmoid())
            cell = forget_gates[-1] * cell + added[-1]
            state = o.sigmoid() * cell.tanh()
        # Of three layers the last cell state is f_3 f_2 i_1 g_1 + f_3 i_2 g_2 + i_3 g_3: from the
        # last term backwards, `left` is 1, f_3, f_3 f_2.
        left, norms = torch.ones_like(cell), []
        for term, keep in zip(reversed(added), reversed(forget_gates), strict=True):
            norms.append((left * term).norm(dim=-1))
            left = left * keep
        shares = torch.stack(norms[::-1], -1)
        return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)
