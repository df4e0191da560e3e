"""Rows that a model makes anew for every step, in place of those that a cache holds."""

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from probekit.base.kinds import ARRAYS
from probekit.base.machine.hardware import free_memory
from probekit.base.notices import human_bytes, human_time
from probekit.base.numbers.ragged import bounds_of
from probekit.data.encoded import EncodedSplit
from probekit.data.stored import encoded_of
from probekit.errors import OptionError
from probekit.features import FeatureView
from probekit.probe.heads.contract import Reads
from probekit.store import StoredRows
from probekit.train.residency import Residency
from probekit.train.source import Inputs, Source, Step
from probekit.train.stream import StreamSpec
from probekit.train.token_rows import ARRAY as SUBWORDS
from probekit.train.token_rows import TokenLayout
from probekit.tuning.live_model import LiveModel

if TYPE_CHECKING:
    from probekit.tuning.live_model import LiveModel


class LiveSource(Source):
    """Some layers of a view's rows, or the subwords of its examples, computed when they are read.

    Where rows are read for a step, gradients go through them into the model; scored are rows of
    the model in evaluation mode.
    """

    def __init__(
        self,
        view: FeatureView,
        layers: Sequence[int],
        live: "LiveModel",
        encoded: EncodedSplit,
        layout: TokenLayout | None,
    ) -> None:
        """Look up where each row lies in its text.

        Args:
            view: the rows that are predicted.
            layers: which layers, ascending.
            live: the model.
            encoded: the texts of the view's entry.
            layout: how subwords make rows; None where rows are read.

        """
        device = live.backbone.device
        super().__init__(view, layers, device=device, resident=False, layout=layout)
        self._live, self.tuned, self._encoded = live, live.tuned, encoded
        self._array = view.array.spec.name if layout is None else SUBWORDS
        # two texts of three words and one: row 3 of the entry is place 0 of the text 1
        read, per = self.read_view, ARRAYS[self._array].per
        self._owners = read.owners
        if per == "text":
            self._within = np.zeros_like(self._owners)
        elif per == "subword":
            self._within = read.rows - read.entry.examples.token_start[self._owners]
        else:
            self._within = read.word_places

    @torch.no_grad()
    def read(self, places: Int64[np.ndarray, " rows"]) -> StoredRows:
        """Compute rows without gradients."""
        return StoredRows(self.compute(places))

    def _prefetch(self, places: Int64[np.ndarray, " rows"]) -> None:
        """Do nothing: there is nothing to be asked for."""

    def batches(self, steps: Iterator[Step], *, memory: int) -> Generator[Inputs, None, None]:
        """Yield what each step reads, computed when its turn has come."""
        for step in steps:
            with torch.set_grad_enabled(self._live.method.trains):
                z = self.compute(self.read_view.places(step))
            yield self._inputs(z, step)

    def compute(self, places: Int64[np.ndarray, " rows"]) -> torch.Tensor:
        """Return rows of ``read_view``, layers first."""
        texts, which = np.unique(self._owners[places], return_inverse=True)
        encoded = self._encoded.take(texts)
        wanted = bounds_of(encoded.rows[self._array])[which] + self._within[places]
        rows = self._live.rows(encoded, self._array, self.layers, wanted)
        return rows.index_select(1, torch.from_numpy(wanted).to(self.device))


class LiveRows(Residency):
    """Hands out rows of views that a model computes."""

    def __init__(self, live: "LiveModel") -> None:
        """Keep the model; its rows take no memory between steps."""
        super().__init__(0, live.backbone.device)
        self._live = live
        self._encoded: dict[str, EncodedSplit] = {}  # the texts of each entry, by its key

    def source(
        self, view: FeatureView, reads: Reads, layers: tuple[int, ...], *, once: bool = False
    ) -> Source:
        """Return what heads read of a view."""
        key = (id(view), reads, layers)
        if key not in self._known:
            entry = view.entry
            if entry.manifest.key not in self._encoded:
                self._encoded[entry.manifest.key] = encoded_of(entry.examples)
            encoded = self._encoded[entry.manifest.key]
            layout = TokenLayout(view, stored=False) if reads == "tokens" else None
            self._known[key] = LiveSource(view, layers, self._live, encoded, layout)
        return self._known[key]


logger = logging.getLogger(__name__)

_TOKENS = 256
"""Subwords of the passes that are measured: on a CPU more take long and go no faster."""

_COPIES = 4
"""Copies of the trained values beside the model's own: gradients, two moments, the best state."""

_FEW_STEPS = 50
"""Steps below which a line says that they are few: three epochs of a few shots are six."""

_OF_SCORING = 1 / 3
"""What a subword costs that only goes forward, of one that goes back as well."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a run takes beside its model.

    Attributes:
        held: bytes that one batch keeps for the way back, or all of a step that is no more.
        copies: bytes of gradients, moments and the best state.
        stepping: seconds of all steps.
        scoring: seconds of scoring what chooses between them, and dev at the end.
    """

    held: int
    copies: int
    stepping: float
    scoring: float


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """One pass there and back: its subwords, the bytes that it held between, and its seconds."""

    tokens: int
    held: int
    seconds: float


def check_run(live: LiveModel, stream: StreamSpec, dev: FeatureView) -> None:
    """Say what a run that trains a model takes, and refuse one that does not fit.

    Args:
        live: the model; it is as it was afterwards.
        stream: the run.
        dev: scored while it trains, or after that.

    Raises:
        OptionError: the device has too little memory free.
    """
    assert live.tuned is not None, "something is trained"
    found, device = forecast(live, stream, dev), live.backbone.device
    name, method = live.backbone.info.name, live.method.name
    needed, free = found.held + found.copies, free_memory(device)
    if needed > free:
        raise OptionError(
            f"--method {method} of {name} takes about {human_bytes(needed)} beside the model "
            f"({human_bytes(found.held)} of it for one batch), and {human_bytes(free)} are "
            f"free on {device}. Give a smaller --batch-tokens than {live.batch_tokens}, a method "
            "that trains less (lora, bitfit), or --depth."
        )
    mostly = (
        f" More than half of that time scores dev, {len(stream.points)} times: see --evals."
        if found.scoring > found.stepping and len(stream.points) > 1 and stream.judge is None
        else ""
    )
    few = " So few steps hardly train a model: see --epochs."
    logger.info(
        "%s trains %s of %s values of %s: %d steps in about %s, with %s beside the model.%s%s",
        method,
        f"{sum(value.numel() for value in live.tuned.parameters()):,}",
        f"{live.tuned.n_model:,}",
        name,
        stream.total_steps,
        human_time(found.stepping + found.scoring),
        human_bytes(needed),
        mostly,
        few if stream.total_steps < _FEW_STEPS else "",
    )


def forecast(live: LiveModel, stream: StreamSpec, dev: FeatureView) -> Forecast:
    """Return what a run will take, from two short passes over texts of its own.

    Args:
        live: the model.
        stream: the run.
        dev: scored while it trains, or after that.
    """
    assert live.tuned is not None, "something is trained"
    lengths = tokens_of(stream.train)
    places = np.argsort(lengths, kind="stable")[len(lengths) // 2 :]  # of middling length, and up
    most = min(_TOKENS, live.batch_tokens)
    count = max(int(np.searchsorted(np.cumsum(lengths[places]), most)), 1)
    (source,) = LiveRows(live).sources(stream.train, [stream]).values()
    some = (places[: max(n, 1)] for n in (count // 4, count))
    first, full = (_measure(live, source, one, int(lengths[one].sum())) for one in some)
    per_token = max(full.held - first.held, 0) / max(full.tokens - first.tokens, 1)
    fixed = max(full.held - per_token * full.tokens, 0)  # such as weights in another dtype
    largest = min(int(np.sort(lengths)[-stream.batch_size :].sum()), live.batch_tokens)
    cost = full.seconds / full.tokens
    of_dev, points = int(tokens_of(dev).sum()), len(stream.points)
    judged = of_dev if stream.judge is None else int(tokens_of(stream.judge).sum())
    scored = points * judged + (0 if stream.judge is None else of_dev)
    return Forecast(
        held=int(per_token * largest + fixed),
        copies=_COPIES * sum(value.nbytes for value in live.tuned.parameters()),
        stepping=cost * stream.epochs * lengths.sum(),
        scoring=cost * _OF_SCORING * scored,
    )


def tokens_of(view: FeatureView) -> Int64[np.ndarray, " examples"]:
    """Return how many subwords run for each example of a view."""
    return TokenLayout(view, stored=False).view.lengths


def _measure(
    live: LiveModel, source: Source, examples: Int64[np.ndarray, " some"], tokens: int
) -> _Pass:
    """Run the model over some examples of train, there and back, and leave no trace."""
    assert live.tuned is not None, "something is trained"
    own = {value.untyped_storage().data_ptr() for value in live.backbone.model.parameters()}
    held: dict[int, int] = {}

    def pack(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return value

    live.tuned.train()
    start = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        (inputs,) = source.batches(iter([examples]), memory=0)
    torch.autograd.backward(inputs.z.sum())
    inputs.z[0, 0, 0].item()  # an accelerator returns before it is done; this waits for it
    seconds = time.perf_counter() - start
    live.tuned.eval().zero_grad()
    live.passes = 0
    return _Pass(tokens=tokens, held=sum(held.values()), seconds=seconds)
