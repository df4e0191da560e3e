"""What is said of a run: in its record, and while it is trained."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import torch

from probekit.base.fingerprint import digest_file
from probekit.base.machine import native_bfloat16
from probekit.base.notices import short_time
from probekit.base.registry import parse
from probekit.base.selection import HELD_OUT
from probekit.features import Splits
from probekit.features.sentence_groups import group_sizes
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import Record
from probekit.results.claims import Owner
from probekit.results.summaries.wording import OPTIONS, option_text, rates_text
from probekit.train.option_groups import DEFAULT_EVALS
from probekit.train.result import FitResult
from probekit.train.sweeps.outputs import Outputs
from probekit.train.sweeps.resolve import Run
from probekit.train.sweeps.run_options import Origin
from probekit.train.sweeps.run_views import count_duplicates, sample
from probekit.train.sweeps.specs import TrainSpec
from probekit.version import __version__

_APART = ("head", "seed", "trial", "rate_from", "left_out")
"""What is said of every run, and what follows from the rest."""

_AS_ASKED = (
    *("method", "depth", "normalize", "pooling", "protocol", "shots", "fraction", "seed", "l2"),
    *("epochs", "lr", "rate_from", "trial", "left_out", "batch_size"),
    "batch_tokens",
)
"""What a record says as the settled spec does."""

_SAID = {
    *_AS_ASKED,
    *("label", "control"),  # Record.label
    # Record.protocol
    *("fit_on", "hold_out", "group", "drop_duplicates", "label_noise", "positives"),
    *("optimizer", "weight_decay", "schedule", "warmup"),  # Record.optimizer
    *("head", "decoder", "layers", "start", "freeze_fusion", "fit", "select", "evals", "rates"),
}
"""Options that have a field or a text of a record; any other one is said among its settings."""

_OUTCOME = {field.name for field in fields(Record)} & {field.name for field in fields(FitResult)}
"""What a record says as the result of training does."""

_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "transformers")

_SOLVERS = {"lbfgs": "L-BFGS"}
"""Solvers whose names are written in another way."""


def make_record(
    run: Run, result: FitResult, splits: Splits, outputs: Outputs, device: str
) -> Record:
    """Return the record of a finished run."""
    predictions = outputs.predictions_of(run.options.key)
    select = run.member.select
    # the folds that a draw allowed, where these are fewer than the default
    folds = {"folds": select.folds} if select is not None and select.default else {}
    outcome = {name: getattr(result, name) for name in _OUTCOME} | {
        "diagnosis": {**result.diagnosis, **folds},
        "predictions": None if predictions is None else str(predictions),
        "predictions_digest": None if predictions is None else digest_file(predictions),
    }
    return Record(
        **described(run, splits) | outcome,
        environment=describe_environment(device),
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


def described(run: Run, splits: Splits) -> dict[str, Any]:
    """Return what a record says of a run before it has begun, by field."""
    spec, options, member = run.spec, run.options, run.member
    manifest = splits.manifest
    seen = {
        "examples": run.n_sentences,
        "of_examples": len(splits.drawable),
        "of_rows": splits.n_rows("train"),
        "blocks": manifest.n_blocks,
        "dtype": manifest.dtype,
        "format": manifest.backend,
    }
    if manifest.limit is not None:
        seen["limit"] = manifest.limit
    drawn = sample(spec, splits)
    if (groups := splits.example_groups("train")) is not None:
        seen |= group_sizes(groups[drawn])
    stated = _stated(spec)
    changed = spec.changed
    unsaid = {n: value for n, value in stated.items() if n in changed and n not in _SAID}
    control = "" if spec.control is None else f" (control {spec.control})"
    solver = _SOLVERS.get(spec.fit, spec.fit)
    return {name: getattr(spec, name) for name in _AS_ASKED} | {
        "model": manifest.model,
        "task": splits.task.name,
        "label": f"{spec.label}{control}",
        "labels_fingerprint": options.labels_fingerprint,
        "entry": manifest.key,
        "texts": {split: splits.entries[split].manifest.request["text"] for split in splits.labels},
        "seen": seen,
        "duplicates": count_duplicates(spec, splits, drawn),
        "head": member.head.name,
        "decoder": member.decoder.name,
        "options": {
            **_changed_settings(spec),
            **{f"model.{name}": rate for name, rate in options.dropout.items()},
            **unsaid,
        },
        "spec": stated,
        "plugins": options.plugins,
        "layers": options.layers,
        "init": run.init,
        "freeze": spec.freeze_fusion,
        "fitter": spec.fit,
        "select": _select_text(run),
        "evals": None if spec.evals == DEFAULT_EVALS else spec.evals,
        "rates": dict(spec.rates),
        "optimizer": spec.optimizer_text if spec.fit == "adam" else solver,
        "metric": options.metric,
    }


def _stated(spec: TrainSpec) -> dict[str, Any]:
    """Return the options that make a run, as far as they are no folder of this machine."""
    apart = {"model", "task", "fusion_from", "init_from"} | {f.name for f in fields(Origin)}
    said = spec.to_json().items()
    return {name: value for name, value in said if name not in apart and value not in (None, ())}


def _select_text(run: Run) -> str | None:
    """Return what chose, such as ``cv:5 by prompt``; None if nothing was chosen."""
    select = run.member.select
    if select is None:
        return None
    named = run.spec.group and select.kind != HELD_OUT  # of which the protocol names the groups
    return f"{select.asked} by {run.spec.group}" if named else select.asked


def _changed_settings(spec: TrainSpec) -> dict[str, Any]:
    """Return the settings of head and decoder that are not the default, as ``decoder.hidden``."""
    assert spec.decoder is not None
    registries: dict[str, Mapping[str, Any]] = {"head": HEADS, "decoder": DECODERS}
    changed: dict[str, Any] = {}
    for kind, registry in registries.items():
        plugin = parse(kind, getattr(spec, kind), registry)
        default = registry[plugin.name]().to_json()
        settings = plugin.to_json().items()
        changed |= {f"{kind}.{name}": value for name, value in settings if default[name] != value}
    return changed


def run_names(plan: Sequence[TrainSpec]) -> dict[TrainSpec, str]:
    """Return a name for each run: head, seed, and whatever else tells the runs of a plan apart."""
    varied = [
        field.name
        for field in fields(TrainSpec)
        if field.name not in _APART and len({getattr(spec, field.name) for spec in plan}) > 1
    ]
    names: dict[TrainSpec, str] = {}
    for spec in plan:
        options = {name: getattr(spec, name) for name in varied}
        if spec.left_out is not None:
            options.pop("layers", None)
        if "rates" in options:
            options["rates"] = rates_text(dict(spec.rates)) or None
        words = [_option_words(name, value) for name, value in options.items()]
        head = f"trial of {spec.head}" if spec.trial else spec.head
        if spec.left_out is not None:
            head = f"{head} without layer {spec.left_out}"
        names[spec] = ", ".join([head, f"seed {spec.seed}", *words])
    return names


def _option_words(name: str, value: Any) -> str:
    """Return an option of a spec in words: its layers are text, where a record has numbers.

    What a record has no words for, such as ``control 0``, is said with its name.
    """
    if value is not None and (name == "layers" or name not in OPTIONS):
        return f"{name.replace('_', ' ')} {value}"
    return option_text(name, value)


def finished_text(record: Record) -> str:
    """Return the scores of a run and the time of its fit."""
    scale = METRICS[record.metric].scale
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
