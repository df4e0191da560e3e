"""A head and its decoder as one module."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.base.machine.hardware import native_bfloat16
from probekit.errors import RecordError, reason_of
from probekit.probe.decoders.contract import Decoder, Losses, Targets
from probekit.probe.heads.contract import FusionHead, HeadInput
from probekit.probe.heads.tokens import TokenStates
from probekit.tuning import Tuned

_HEAVY = 100_000
"""Head parameters from which bfloat16 pays: below, casting the rows costs more than it saves."""
_HEAVY_DECODER = 2_000_000
"""The same for a decoder, whose share of the work is smaller."""

MULTIPLE = 32
"""What the number of rows is filled up to, where products run in bfloat16 on a CPU."""


class Probe(nn.Module):
    """A head and its decoder: normalised rows in, class ids out."""

    def __init__(self, head: FusionHead, decoder: Decoder, tuned: Tuned | None = None) -> None:
        """Join the two, and what is trained of the model beside them, if it is."""
        super().__init__()
        self.head = head
        self.decoder = decoder
        self.tuned = tuned
        self.heavy = count_values(head) >= _HEAVY or count_values(decoder) >= _HEAVY_DECODER

    def logits(
        self, z: HeadInput, generator: torch.Generator | None = None
    ) -> Float[Tensor, "rows outputs"]:
        """Return logits in float32; a heavy probe's products run in bfloat16 where native."""
        return self._run(lambda rows: self.decoder(self.head(rows), generator), z)

    @torch.no_grad()
    def predict(self, z: HeadInput, offsets: Int64[Tensor, " bounds"]) -> Targets:
        """Return one class id, or one number, per row; the probe must be in evaluation mode."""
        return self.decoder.predict(self.evaluated(z), offsets)

    @torch.no_grad()
    def evaluated(self, z: HeadInput) -> Float[Tensor, "rows outputs"]:
        """Return the logits that predictions are made of; the probe must be evaluating."""
        # Evaluating, decoder and head are one map where the decoder is affine: `concat` then takes
        # a (d, classes) product per layer for its (d, d) one.
        affine = self.decoder.affine
        if affine is None:
            return self.logits(z)
        return self._run(lambda rows: self.head.project(rows, *affine), z)

    @torch.no_grad()
    def row_losses(
        self, z: HeadInput, targets: Targets, offsets: Int64[Tensor, " bounds"]
    ) -> Losses:
        """Return the loss of each row, in nats for classes; the probe must be evaluating."""
        return self.decoder.row_losses(self.logits(z), targets, offsets)

    def _run(self, logits: Callable[[HeadInput], Tensor], z: HeadInput) -> Tensor:
        """Return the logits of z, a heavy probe's by products in bfloat16 where it is native."""
        device = z.hidden.device if isinstance(z, TokenStates) else z.device
        enabled = self.heavy and native_bfloat16(str(device))
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            if not enabled or isinstance(z, TokenStates) or device.type != "cpu":
                return logits(z)
            # oneDNN compiles its kernels for every number of rows, of which training has hundreds
            # (`benchmarks/kernels_kept.py`): the last row is repeated up to a multiple.
            layers, lacking = z.transpose(0, 1), -len(z) % MULTIPLE
            if lacking:
                layers = torch.cat([layers, layers[:, -1:].expand(-1, lacking, -1)], 1)
            return logits(layers.transpose(0, 1))[: len(z)]


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable values."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def count_values(module: nn.Module) -> int:
    """Return the number of values, trained or frozen, that products run over."""
    return sum(value.numel() for value in (*module.parameters(), *module.buffers()))


def load_under(prefix: str, state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Load the tensors whose names begin with ``prefix``, if there are any."""
    tensors = {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
    if tensors:
        module.load_state_dict(tensors)


def start_from(prefix: str, state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Load what a run starts from, as ``load_under`` does.

    Raises:
        RecordError: the saved tensors are not those of the module.
    """
    try:
        load_under(prefix, state, module)
    except RuntimeError as error:
        raise RecordError(
            "the saved head that this run starts from is damaged "
            f"({reason_of(error)}). Train it again with --save."
        ) from None
