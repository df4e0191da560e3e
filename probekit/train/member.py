"""A head with its decoder, and one such probe in training: its curve, its best checkpoint."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.base.machine import native_bfloat16
from probekit.base.numbers import derive, torch_generator
from probekit.base.selection import Selection
from probekit.base.tensors import Stopwatch
from probekit.errors import RecordError, reason_of
from probekit.features import FeatureView
from probekit.metrics import Metric
from probekit.metrics.number_metrics import ENDLESS
from probekit.probe.decoders import DecoderSpec
from probekit.probe.decoders.contract import Decoder, Targets
from probekit.probe.heads.contract import FusionHead, HeadInput, HeadSpec
from probekit.probe.normalization import NORMALIZATIONS, Normalization, normalization_from_json
from probekit.train.option_groups import Descent
from probekit.tuning import Tuned

logger = logging.getLogger(__name__)

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
        self.heavy = _count_values(head) >= _HEAVY or _count_values(decoder) >= _HEAVY_DECODER

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

    def _run(self, logits: Callable[[HeadInput], Tensor], z: HeadInput) -> Tensor:
        """Return the logits of z, a heavy probe's by products in bfloat16 where it is native."""
        device = z.device
        enabled = self.heavy and native_bfloat16(str(device))
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            if not enabled or not isinstance(z, Tensor) or device.type != "cpu":
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


def _count_values(module: nn.Module) -> int:
    """Return the number of values, trained or frozen, that products run over."""
    return sum(value.numel() for value in (*module.parameters(), *module.buffers()))


def load_under(prefix: str, state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Load the tensors whose names begin with ``prefix``, if there are any."""
    tensors = {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
    if tensors:
        module.load_state_dict(tensors)


def _start_from(prefix: str, state: Mapping[str, Tensor], module: nn.Module) -> None:
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


@dataclass(frozen=True, kw_only=True)
class MemberSpec:
    """What distinguishes a member of a stream.

    Attributes:
        head: the head and its hyper-parameters.
        decoder: the decoder and its hyper-parameters.
        layers: layers that the head reads, ascending.
        normalize: how each layer is normalised, one of ``NORMALIZATIONS``.
        fitter: name of what fits it, in ``FITTERS``.
        select: what chooses the strength of a solver's L2, or a checkpoint; None where nothing is
            chosen.
        l2: strength of a solver's L2; None chooses one on the path.
        descent: how it goes down the gradients, its rates settled; a solver does not ask.
        start: saved tensors to start from, ``head.*`` and perhaps ``decoder.*`` and
            ``normalization.*``; ``None`` is a fresh start.
        freeze_head: train the decoder alone.
    """

    head: HeadSpec
    decoder: DecoderSpec
    layers: tuple[int, ...]
    normalize: str = "none"
    fitter: str = "adam"
    select: Selection | None = None
    l2: float | None = None
    descent: Descent = field(default_factory=Descent)
    start: Mapping[str, Tensor] | None = field(default=None, repr=False, compare=False)
    freeze_head: bool = False


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

    def to_state(self) -> dict[str, Any]:
        """Return the same as tensors and plain values."""
        scores = {name: float(score) for name, score in self.scores.items()}
        return {**vars(self), "scores": scores, "predicted": torch.from_numpy(self.predicted)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Checkpoint":
        """Return what `to_state` described."""
        return cls(**{**state, "predicted": state["predicted"].numpy()})


class Member:
    """A head in training, with everything that is its own but the steps it takes.

    Attributes:
        name: its head and seed, in words.
        normalization: of the layers that it reads, and perhaps of others.
        dropout: draws its masks; members of one stream begin alike.
        reading: the seconds of reading batches; all that read the same have one together.
        stepping: those of its steps; probes that take them together have one together.
        curve: step, mean training loss since the last point, and dev score, after some steps.
        last_score: the newest dev score.
        selection_score: score of the best checkpoint on what chose it, where that was not dev.
        solved: how a solver found its values, by name; empty where none did.
        refitted: the probe's tensors as a last fit on train and dev has them; they score all splits
            but dev; None where there was none.
        diverged: whether its loss or a trained value is no longer finite; it takes no more steps,
            and what follows is no checkpoint unless there is no other.
    """

    def __init__(
        self,
        spec: MemberSpec,
        normalization: Normalization,
        *,
        seed: int,
        train: FeatureView,
        device: torch.device,
        tuned: Tuned | None = None,
    ) -> None:
        """Initialise the modules from the seed and the names of head and decoder alone."""
        self.spec, self.name = spec, f"{spec.head.name} seed {seed}"
        self.normalization = normalization
        self._seed, self._dim = seed, train.array.dim
        head = self.fresh_head()
        decoder = spec.decoder.build(
            head.width, train.n_outputs, torch_generator(seed, "decoder", spec.decoder.name)
        )
        decoder.fit_targets(torch.from_numpy(train.targets))
        if spec.start is not None:
            _start_from("decoder.", spec.start, decoder)
        head.requires_grad_(not spec.freeze_head)
        self.probe = Probe(head, decoder, tuned).to(device)
        self.dropout = torch.Generator(device).manual_seed(derive(seed, "dropout"))
        self.curve: list[tuple[int, float, float]] = []
        self.last_score = math.nan
        self.best: Checkpoint | None = None
        self.solved: Mapping[str, Any] = {}
        self.refitted: Mapping[str, Tensor] | None = None
        self.selection_score: float | None = None
        self.diverged = False
        self.reading, self.stepping = Stopwatch(device), Stopwatch(device)
        self._loss = torch.zeros((), device=device)
        self._steps = 0

    def fresh_head(self) -> FusionHead:
        """Return the head as it is before anything is trained, on the CPU; the same each time.

        A saved head that the run starts from is that saved head.
        """
        head = self.spec.head.build(
            self.spec.layers, self._dim, torch_generator(self._seed, "head", self.spec.head.name)
        )
        if self.spec.start is not None:
            _start_from("head.", self.spec.start, head)
        return head

    def count(self, loss: Tensor) -> None:
        """Note the loss of one step, a number without a graph."""
        self._loss += loss
        self._steps += 1

    def note(
        self,
        step: int,
        scores: Mapping[str, float],
        metric: type[Metric],
        predicted: np.ndarray,
    ) -> None:
        """Record the dev scores after ``step``, and keep the state if it is the best so far.

        At step 0 nothing was trained, so there is no point of a curve.

        Args:
            step: steps done.
            scores: on all of dev.
            metric: what scored.
            predicted: of each row of dev.
        """
        score = self.last_score = scores[metric.name]
        if step:
            loss = float(self._loss) / self._steps if self._steps else math.inf
            self._loss.zero_()
            self._steps = 0
            self.curve.append((step, loss if math.isfinite(loss) else ENDLESS, score))
            values = self.probe.parameters()
            finite = math.isfinite(loss) and all(bool(v.isfinite().all()) for v in values)
            if not (finite or self.diverged):
                self.diverged = True
                logger.warning(
                    "%s at --lr %s: the loss or a trained value is no longer finite; lower a rate "
                    "or use --normalize.",
                    self.spec.head.name,
                    self.spec.descent.rates_text,
                )
        best, sign = self.best, metric.scale.sign
        better = best is None or sign * score > sign * best.scores[metric.name]
        if better and not (self.diverged and best is not None):
            state = {key: value.clone() for key, value in self.probe.state_dict().items()}
            self.best = Checkpoint(step, dict(scores), predicted, state)

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on as if nothing had been between."""
        return {
            "probe": self.probe.state_dict(),
            "dropout": self.dropout.get_state(),
            "curve": [(step, float(loss), float(score)) for step, loss, score in self.curve],
            "last_score": float(self.last_score),
            "kept": [self.best and self.best.to_state()],
            "diverged": self.diverged,
            "loss": self._loss,
            "steps": self._steps,
            "seconds": self.reading.seconds + self.stepping.seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a member of the same spec and seed."""
        self.probe.load_state_dict(state["probe"])
        self.dropout.set_state(state["dropout"])
        self.curve = list(state["curve"])
        self.last_score, self.diverged = state["last_score"], state["diverged"]
        checkpoint = state["kept"][0]
        self.best = checkpoint and Checkpoint.from_state(checkpoint)
        self._loss.copy_(state["loss"])
        self._steps = state["steps"]
        self.stepping.add(state["seconds"])

    def settle(
        self, scores: Mapping[str, float], metric: type[Metric], predicted: np.ndarray
    ) -> None:
        """Note what the state that was chosen without dev does on dev."""
        chosen = self.best or Checkpoint(0, {}, predicted, {})
        self.selection_score = chosen.scores.get(metric.name)
        self.last_score = scores[metric.name]
        self.best = replace(chosen, scores=dict(scores), predicted=predicted)


def taken_over(
    name: str, state: Mapping[str, Tensor], layers: tuple[int, ...], device: torch.device
) -> Normalization | None:
    """Return the normalisation that a continued run takes over, if it has one that was fitted.

    Args:
        name: the normalisation.
        state: what the run starts from; ``normalization.*`` where it is taken over.
        layers: layers of the head.
        device: where the rows are.

    Raises:
        RecordError: the saved tensors are not those of a normalisation of these layers.
    """
    prefix = "normalization."
    values = [value for key, value in state.items() if key.startswith(prefix)]
    if not values or not NORMALIZATIONS[name].fitted:
        return None
    normalization = normalization_from_json({"name": name}, layers, values[0].shape[-1])
    _start_from(prefix, state, normalization)
    return normalization.to(device)
