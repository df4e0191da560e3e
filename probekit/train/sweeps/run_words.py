"""What is said of a run: in its record, and while it is trained."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import torch

from probekit.base.machine.hardware import native_bfloat16
from probekit.base.notices import short_time
from probekit.base.registry import parse
from probekit.features import Splits
from probekit.metrics import scale_of
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import Record
from probekit.results.claims import Owner
from probekit.results.summaries.wording import options_text, rates_text
from probekit.train.option_groups import DEFAULT_EVALS
from probekit.train.result import FitResult
from probekit.train.sweeps.outputs import Outputs
from probekit.train.sweeps.resolve import Run
from probekit.train.sweeps.specs import TrainSpec
from probekit.version import __version__

_APART = ("head", "seed", "trial", "rate_from")
"""What is said of every run, and what follows from the rest."""

_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "transformers")

_SOLVERS = {"lbfgs": "L-BFGS"}
"""Solvers whose names are written in another way."""


def make_record(
    run: Run, result: FitResult, splits: Splits, outputs: Outputs, device: str
) -> Record:
    """Return the record of a finished run."""
    predictions = outputs.predictions.get(run.options.key)
    select = run.member.select
    # the folds that a draw allowed, where these are fewer than the default
    folds = {"folds": select.folds} if select is not None and select.default else {}
    return Record(
        **described(run, splits),
        eval_score=result.eval_score,
        eval_last=result.eval_last,
        best_epoch=result.best_epoch,
        test_score=result.test_score,
        scores=result.scores,
        curve=result.curve,
        weights=result.weights,
        raw_weights=result.raw_weights,
        class_weights=result.class_weights,
        diverged=result.diverged,
        diagnosis={**result.diagnosis, **folds},
        environment=describe_environment(device),
        confusion=result.confusion,
        n_params=result.n_params,
        train_seconds=result.train_seconds,
        predictions=None if predictions is None else str(predictions),
        version=__version__,
        key=run.options.key,
    )


@lru_cache
def describe_environment(device: str) -> dict[str, Any]:
    """Return what computed a run, which is no part of its key: device, threads, dtypes, versions.

    Args:
        device: what computes, such as ``cpu`` or ``cuda:0``.
    """
    of_cuda = device.startswith("cuda")
    return {
        "device": torch.cuda.get_device_name(device) if of_cuda else device,
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "large_heads": "bfloat16" if native_bfloat16(device) else "float32",
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }


def _seen(run: Run, splits: Splits) -> dict[str, Any]:
    """Return how much a run was fitted on, and of how much."""
    entry = splits.entries["train"]
    found: dict[str, Any] = {
        "examples": run.n_sentences,
        "of_examples": splits.n_train,
        "of_rows": splits.n_rows("train"),
        "dtype": entry.manifest.dtype,
        "format": entry.manifest.backend,
    }
    limit = entry.manifest.limit
    return found if limit is None else found | {"limit": limit}


def described(run: Run, splits: Splits) -> dict[str, Any]:
    """Return what a record says of a run before it has begun, by field."""
    spec, options, member = run.spec, run.options, run.member
    control = "" if spec.control is None else f" (control {spec.control})"
    return {
        "model": splits.manifest.model,
        "task": splits.task.name,
        "label": f"{spec.label}{control}",
        "labels_fingerprint": options.labels_fingerprint,
        "entry": splits.manifest.key,
        "seen": _seen(run, splits),
        "head": member.head.name,
        "decoder": member.decoder.name,
        "options": _changed_settings(spec),
        "layers": options.layers,
        "depth": spec.depth,
        "normalize": spec.normalize,
        "pooling": spec.pooling,
        "protocol": spec.protocol,
        "shots": spec.shots,
        "fraction": spec.fraction,
        "seed": spec.seed,
        "init": run.init,
        "freeze": spec.freeze_fusion,
        "fitter": spec.fit,
        "select": None if member.select is None else member.select.asked,
        "l2": spec.l2,
        "epochs": spec.epochs,
        "evals": None if spec.evals == DEFAULT_EVALS else spec.evals,
        "lr": spec.lr,
        "rates": dict(spec.rates),
        "rate_from": spec.rate_from,
        "trial": spec.trial,
        "batch_size": spec.batch_size,
        "optimizer": _fitter_text(spec),
        "metric": options.metric,
    }


def _changed_settings(spec: TrainSpec) -> dict[str, Any]:
    """Return the settings of head and decoder that are not the default, as ``decoder.hidden``."""
    head = parse("head", spec.head, HEADS)
    found = _changed("head", head.to_json(), HEADS[head.name]().to_json())
    if spec.decoder is not None:
        decoder = parse("decoder", spec.decoder, DECODERS)
        found |= _changed("decoder", decoder.to_json(), DECODERS[decoder.name]().to_json())
    return found


def _fitter_text(spec: TrainSpec) -> str:
    """Return what fits a run, as records name it."""
    return spec.optimizer_text if spec.fit == "adam" else _SOLVERS.get(spec.fit, spec.fit)


def _changed(kind: str, given: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{kind}.{name}": value for name, value in given.items() if default[name] != value}


def run_names(plan: Sequence[TrainSpec]) -> dict[TrainSpec, str]:
    """Return a name for each run: head, seed, and whatever else tells the runs of a plan apart."""
    varied = [
        field.name
        for field in fields(TrainSpec)
        if field.name not in _APART and len({getattr(spec, field.name) for spec in plan}) > 1
    ]
    return {spec: _name(spec, varied) for spec in plan}


def _name(spec: TrainSpec, varied: Sequence[str]) -> str:
    options: dict[str, Any] = {name: getattr(spec, name) for name in varied}
    if "rates" in options:
        options["rates"] = rates_text(dict(spec.rates)) or None
    parts = [spec.head, f"seed {spec.seed}", options_text(options)]
    return ("trial of " if spec.trial else "") + ", ".join(part for part in parts if part)


def finished_text(record: Record) -> str:
    """Return the scores of a run and the time of its fit."""
    scale = scale_of(record.metric)
    scores = [f"dev {scale.text(record.eval_score)}"]
    if record.test_score is not None:
        scores.append(f"test {scale.text(record.test_score)}")
    diverged = ", diverged" if record.diverged else ""
    return f"{', '.join(scores)}{diverged} ({short_time(record.train_seconds)})"


def waiting_text(others: Mapping[str, Owner]) -> str:
    """Return who trains the runs that are waited for."""
    names = " and ".join(sorted({str(owner) for owner in others.values()}))
    runs = "1 run is" if len(others) == 1 else f"{len(others)} runs are"
    return f"the last {runs} being trained by {names}: waiting. Ctrl-C leaves them to it."
