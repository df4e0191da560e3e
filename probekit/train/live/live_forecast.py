"""What training a model takes, told before its first step: memory, and time."""

import logging
import time
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from probekit.base.machine import free_memory
from probekit.base.notices import human_bytes, human_time
from probekit.errors import OptionError
from probekit.features import FeatureView
from probekit.train.live.live_model import LiveModel
from probekit.train.live.live_rows import LiveRows
from probekit.train.source import Source, TokenLayout
from probekit.train.stream import StreamSpec

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
    costs, device = forecast(live, stream, dev), live.backbone.device
    name, method = live.backbone.info.name, live.method.name
    needed, free = costs.held + costs.copies, free_memory(device)
    if needed > free:
        raise OptionError(
            f"--method {method} of {name} needs about {human_bytes(needed)} of memory beside the "
            f"model ({human_bytes(costs.held)} of it for one batch), and only {human_bytes(free)} "
            f"are free on {device}. Lower batch_tokens (now {live.batch_tokens}) in the "
            "--protocol, or give a method that trains less (lora, bitfit), or --depth."
        )
    mostly = (
        f" More than half of that time goes into scoring dev {len(stream.points)} times: lower "
        "evals in a --protocol."
        if costs.scoring > costs.stepping and len(stream.points) > 1 and stream.judge is None
        else ""
    )
    few = " So few steps will hardly train a model: see --epochs."
    logger.info(
        "%s trains %s of %s weights of %s: %d steps in about %s, with %s of memory beside the "
        "model.%s%s",
        method,
        f"{sum(value.numel() for value in live.tuned.parameters()):,}",
        f"{live.tuned.n_model:,}",
        name,
        stream.total_steps,
        human_time(costs.stepping + costs.scoring),
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
    first, full = (
        _measure(live, source, places[:n], int(lengths[places[:n]].sum()))
        for n in (max(count // 4, 1), count)
    )
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
    of_model = {value.untyped_storage().data_ptr() for value in live.backbone.model.parameters()}
    held: dict[int, int] = {}

    def pack(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in of_model:
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
