"""One head in training: its modules, its optimizer, its best checkpoint so far."""

import logging
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.decoders import Decoder, DecoderSpec
from probekit.hardware import native_bfloat16
from probekit.heads import FusionHead, HeadSpec, LayerWeights
from probekit.seeding import derive, torch_generator
from probekit.train.normalize import Treatment

logger = logging.getLogger(__name__)

_HEAVY = 100_000
"""Head parameters from which bfloat16 pays: below, casting the rows costs more than it saves."""


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
        weight_decay: AdamW's decoupled weight decay.
    """

    head: HeadSpec
    decoder: DecoderSpec
    layers: tuple[int, ...]
    normalize: str = "none"
    lr: float
    mix_lr: float | None = None
    weight_decay: float = 0.01


class Probe(nn.Module):
    """A head and its decoder: normalised rows in, class ids out."""

    def __init__(self, head: FusionHead, decoder: Decoder) -> None:
        """Join the two."""
        super().__init__()
        self.head = head
        self.decoder = decoder
        self.heavy = count_parameters(head) >= _HEAVY

    def logits(
        self, z: Float[Tensor, "rows layers dim"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "rows classes"]:
        """Return logits in float32; a heavy head's products run in bfloat16 where native."""
        with self._autocast(z.device):
            return self.decoder(self.head(z), generator)

    @torch.no_grad()
    def predict(
        self, z: Float[Tensor, "rows layers dim"], offsets: Int64[Tensor, " bounds"]
    ) -> Int64[Tensor, " rows"]:
        """Return one class id per row; the probe must be in evaluation mode."""
        affine = self.decoder.affine
        if affine is None:
            return self.decoder.predict(self.logits(z), offsets)
        with self._autocast(z.device):
            return self.decoder.predict(self.head.project(z, *affine), offsets)

    def _autocast(self, device: torch.device) -> torch.autocast:
        enabled = self.heavy and native_bfloat16(str(device))
        return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A scored state of a member.

    Attributes:
        step: steps done.
        scores: the metric's scores on dev.
        predicted: class number of each dev row.
        state: the probe's tensors.
    """

    step: int
    scores: Mapping[str, float]
    predicted: Int64[np.ndarray, " rows"]
    state: Mapping[str, Tensor]


class Member:
    """A head in training, with everything that is its own."""

    def __init__(
        self,
        spec: MemberSpec,
        treatment: Treatment,
        *,
        seed: int,
        dim: int,
        n_classes: int,
        device: torch.device,
    ) -> None:
        """Initialise the modules from the seed and the names of head and decoder alone."""
        self.spec = spec
        self.treatment = treatment
        head = spec.head.build(spec.layers, dim, torch_generator(seed, "head", spec.head.name))
        decoder = spec.decoder.build(
            head.width, n_classes, torch_generator(seed, "decoder", spec.decoder.name)
        )
        self.probe = Probe(head, decoder).to(device)
        self.optimizer = _optimizer(self.probe, spec)
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.dropout = torch.Generator(device).manual_seed(derive(seed, "dropout"))
        self.curve: list[tuple[int, float, float]] = []
        self.best: Checkpoint | None = None
        self.seconds = 0.0
        self._loss = torch.zeros((), device=device)
        self._steps = 0

    def step(
        self,
        z: Float[Tensor, "rows layers dim"],
        targets: Int64[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"],
        *,
        remaining: float,
    ) -> None:
        """Take one step; ``remaining`` is the share of the run that is left, in (0, 1]."""
        start = time.perf_counter()
        logits = self.probe.logits(z, self.dropout)
        loss = self.probe.decoder.loss(logits, targets, offsets)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * remaining
        self.optimizer.step()
        self._loss += loss.detach()
        self._steps += 1
        self.seconds += time.perf_counter() - start

    def train(self) -> None:
        """Switch to training mode (dropout on)."""
        self.probe.train()

    def eval(self) -> None:
        """Switch to evaluation mode."""
        self.probe.eval()

    def note(
        self,
        step: int,
        scores: Mapping[str, float],
        metric: str,
        predicted: Int64[np.ndarray, " rows"],
    ) -> None:
        """Record the dev scores after ``step``, and keep the state if it is the best so far."""
        self.curve.append((step, self._mean_loss(), scores[metric]))
        if self.best is None or scores[metric] > self.best.scores[metric]:
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

    def weigh(self, z: Float[Tensor, "rows layers dim"]) -> LayerWeights:
        """Return the weight of each layer."""
        return self.probe.head.layer_weights(z)


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable values."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _optimizer(probe: Probe, spec: MemberSpec) -> torch.optim.AdamW:
    mixing = list(probe.head.mixing_parameters()) if spec.mix_lr is not None else []
    apart = {id(parameter) for parameter in mixing}
    others = [parameter for parameter in probe.parameters() if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [{"params": others, "lr": spec.lr}]
    if mixing:
        groups.append({"params": mixing, "lr": spec.mix_lr})
    fused = others[0].device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, weight_decay=spec.weight_decay, fused=fused)
