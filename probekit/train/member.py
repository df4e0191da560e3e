"""One head in training: its modules, its optimizer, its best checkpoint so far."""

import logging
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.decoders import Decoder, DecoderSpec
from probekit.features import FeatureView
from probekit.hardware import native_bfloat16
from probekit.heads import FusionHead, HeadInput, HeadSpec, LayerWeights, TokenStates
from probekit.metrics import Metric
from probekit.seeding import derive, torch_generator
from probekit.train.normalize import Treatment

logger = logging.getLogger(__name__)

_HEAVY = 100_000
"""Head parameters from which bfloat16 pays: below, casting the rows costs more than it saves."""
_HEAVY_DECODER = 2_000_000
"""The same for a decoder, whose share of the work is smaller."""


@dataclass(frozen=True, kw_only=True)
class MemberSpec:
    """What distinguishes a member of a stream.

    Attributes:
        head: the head and its hyper-parameters.
        decoder: the decoder and its hyper-parameters.
        layers: layers that the head reads, ascending.
        normalize: treatment of each layer, one of ``NORMALIZATIONS``.
        lr: peak learning rate.
        mix_lr: peak learning rate of the head's mixing parameters; ``None`` is ``lr``.
        optimizer: ``adamw`` or ``adam``.
        schedule: ``linear`` decay of the learning rate to 0, or ``constant``.
        weight_decay: AdamW's decoupled weight decay.
        start: saved tensors to start from, ``head.*`` and perhaps ``decoder.*``; ``None`` is a
            fresh start.
        freeze_head: train the decoder alone.
    """

    head: HeadSpec
    decoder: DecoderSpec
    layers: tuple[int, ...]
    normalize: str = "none"
    lr: float
    mix_lr: float | None = None
    optimizer: str = "adamw"
    schedule: str = "linear"
    weight_decay: float = 0.01
    start: Mapping[str, Tensor] | None = field(default=None, repr=False, compare=False)
    freeze_head: bool = False


class Probe(nn.Module):
    """A head and its decoder: normalised rows in, class ids out."""

    def __init__(self, head: FusionHead, decoder: Decoder) -> None:
        """Join the two."""
        super().__init__()
        self.head = head
        self.decoder = decoder
        self.heavy = count_values(head) >= _HEAVY or count_values(decoder) >= _HEAVY_DECODER

    def logits(
        self, z: HeadInput, generator: torch.Generator | None = None
    ) -> Float[Tensor, "rows outputs"]:
        """Return logits in float32; a heavy probe's products run in bfloat16 where native."""
        with self._autocast(z):
            return self.decoder(self.head(z), generator)

    @torch.no_grad()
    def predict(
        self, z: HeadInput, offsets: Int64[Tensor, " bounds"]
    ) -> Int64[Tensor, " rows"] | Float[Tensor, " rows"]:
        """Return one class id, or one number, per row; the probe must be in evaluation mode."""
        affine = self.decoder.affine
        if affine is None:
            return self.decoder.predict(self.logits(z), offsets)
        with self._autocast(z):
            return self.decoder.predict(self.head.project(z, *affine), offsets)

    @torch.no_grad()
    def row_losses(
        self,
        z: HeadInput,
        targets: Int64[Tensor, " rows"] | Float[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"],
    ) -> Float[Tensor, " rows"]:
        """Return the loss of each row, in nats for classes; the probe must be evaluating."""
        return self.decoder.row_losses(self.logits(z), targets, offsets)

    def _autocast(self, z: HeadInput) -> torch.autocast:
        device = z.hidden.device if isinstance(z, TokenStates) else z.device
        enabled = self.heavy and native_bfloat16(str(device))
        return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A scored state of a member.

    Attributes:
        step: steps done.
        scores: the metric's scores on dev.
        predicted: class number, value or loss of each dev row.
        state: the probe's tensors.
    """

    step: int
    scores: Mapping[str, float]
    predicted: np.ndarray
    state: Mapping[str, Tensor]


class Member:
    """A head in training, with everything that is its own."""

    def __init__(
        self,
        spec: MemberSpec,
        treatment: Treatment,
        *,
        seed: int,
        train: FeatureView,
        device: torch.device,
    ) -> None:
        """Initialise the modules from the seed and the names of head and decoder alone."""
        self.spec = spec
        self.treatment = treatment
        head = spec.head.build(
            spec.layers, train.array.dim, torch_generator(seed, "head", spec.head.name)
        )
        decoder = spec.decoder.build(
            head.width, train.n_outputs, torch_generator(seed, "decoder", spec.decoder.name)
        )
        decoder.fit_targets(torch.from_numpy(train.targets))
        if spec.start is not None:
            load_under("head.", spec.start, head)
            load_under("decoder.", spec.start, decoder)
        head.requires_grad_(not spec.freeze_head)
        self.probe = Probe(head, decoder).to(device)
        self.trainable = count_parameters(self.probe) > 0
        self.optimizer = _optimizer(self.probe, spec) if self.trainable else None
        self.peaks = [group["lr"] for group in self._groups]
        self.dropout = torch.Generator(device).manual_seed(derive(seed, "dropout"))
        self.curve: list[tuple[int, float, float]] = []
        self.best: Checkpoint | None = None
        self.seconds = 0.0
        self._loss = torch.zeros((), device=device)
        self._steps = 0

    def step(
        self,
        z: HeadInput,
        targets: Int64[Tensor, " rows"] | Float[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"],
        *,
        remaining: float,
    ) -> None:
        """Take one step; ``remaining`` is the share of the run that is left, in (0, 1].

        A probe without trainable values (the frozen output head on one layer) only notes its loss.
        """
        start = time.perf_counter()
        with torch.set_grad_enabled(self.trainable):
            logits = self.probe.logits(z, self.dropout)
            loss = self.probe.decoder.loss(logits, targets, offsets)
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            share = remaining if self.spec.schedule == "linear" else 1.0
            for group, peak in zip(self._groups, self.peaks, strict=True):
                group["lr"] = peak * share
            self.optimizer.step()
        self._loss += loss.detach()
        self._steps += 1
        self.seconds += time.perf_counter() - start

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return [] if self.optimizer is None else self.optimizer.param_groups

    def train(self) -> None:
        """Switch to training mode (dropout on)."""
        self.probe.train()

    def eval(self) -> None:
        """Switch to evaluation mode."""
        self.probe.eval()

    def note(
        self, step: int, scores: Mapping[str, float], metric: Metric, predicted: np.ndarray
    ) -> None:
        """Record the dev scores after ``step``, and keep the state if it is the best so far."""
        score = scores[metric.name]
        self.curve.append((step, self._mean_loss(), score))
        sign = 1 if metric.greater_is_better else -1
        if self.best is None or sign * score > sign * self.best.scores[metric.name]:
            state = {name: value.clone() for name, value in self.probe.state_dict().items()}
            self.best = Checkpoint(step, dict(scores), predicted, state)

    def _mean_loss(self) -> float:
        """Return the mean training loss since the last call."""
        loss = float(self._loss) / self._steps
        self._loss.zero_()
        self._steps = 0
        if math.isfinite(loss):
            return loss
        logger.warning(
            "%s at lr %g: the loss is no longer finite; lower --lr or use --normalize.",
            self.spec.head.name,
            self.spec.lr,
        )
        return sys.float_info.max  # JSON has no infinity

    def restore_best(self) -> None:
        """Return to the best checkpoint."""
        assert self.best is not None, "no checkpoint was scored"
        self.probe.load_state_dict(self.best.state)
        self.eval()

    def weigh(self, z: HeadInput | None) -> LayerWeights:
        """Return the weight of each layer."""
        return self.probe.head.layer_weights(z)


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable values."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def count_values(module: nn.Module) -> int:
    """Return the number of values, trained or frozen, that products run over."""
    return sum(value.numel() for value in (*module.parameters(), *module.buffers()))


def load_under(prefix: str, state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Load the tensors whose names begin with ``prefix``, if there are any."""
    own = {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
    if own:
        module.load_state_dict(own)


def _optimizer(probe: Probe, spec: MemberSpec) -> torch.optim.Optimizer:
    trained = [parameter for parameter in probe.parameters() if parameter.requires_grad]
    mixing = [
        parameter
        for parameter in (probe.head.mixing_parameters() if spec.mix_lr is not None else ())
        if parameter.requires_grad
    ]
    apart = {id(parameter) for parameter in mixing}
    others = [parameter for parameter in trained if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [{"params": others, "lr": spec.lr}]
    if mixing:
        groups.append({"params": mixing, "lr": spec.mix_lr})
    fused = trained[0].device.type in ("cpu", "cuda")
    if spec.optimizer == "adam":
        return torch.optim.Adam(groups, fused=fused)
    return torch.optim.AdamW(groups, weight_decay=spec.weight_decay, fused=fused)
