"""What is said of the runs of a sweep, besides their records."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from probekit.base.messages.quantities import short_time
from probekit.metrics import scale_of
from probekit.results import Record
from probekit.results.claims import Owner
from probekit.results.summaries.wording import options_text, rates_text
from probekit.train.sweeps.specs import TrainSpec

_APART = ("head", "seed", "trial", "rate_from")
"""What is said of every run, and what follows from the rest."""


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
