"""Run what the command line asks for, and say where the records are."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probekit.cli.run_list import first_label
from probekit.cli.target import Target
from probekit.cli.training_options import TrainingOptions
from probekit.cli.values import parse_bytes

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.train.sweeps.specs import TrainSpec

logger = logging.getLogger(__name__)


def run(
    plan: "Sequence[TrainSpec]",
    target: Target,
    shared: TrainingOptions,
    *,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
    engine: str = "local",
) -> "list[Record]":
    """Train the runs of a plan, and say where the records are.

    Args:
        plan: the runs.
        target: the features.
        shared: options of all training commands.
        save: folder for the trained heads.
        predictions: write predictions beside the records.
        workers: worker processes.
        engine: what runs them.
    """
    from probekit.cli.output import progress_wanted
    from probekit.train.sweeps import sweep

    out = shared.out or target.default_out(first_label(shared))
    records = sweep(
        plan,
        out=out,
        location=target.location,
        workers=workers,
        engine=engine,
        memory=parse_bytes(shared.memory),
        device=shared.device,
        save=save,
        predictions=predictions,
        progress=progress_wanted(),
    )
    _say_where(out, save)
    return records


def with_baselines(
    plan: "Sequence[TrainSpec]",
    target: Target,
    shared: TrainingOptions,
    *,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
) -> "list[Record]":
    """Train heads with their baselines; return all records, and say what could not be had."""
    from probekit.cli.output import progress_wanted
    from probekit.train.baselines import run_baselines

    out = shared.out or target.default_out(first_label(shared))
    try:
        found = run_baselines(
            plan,
            out=out,
            location=target.location,
            workers=workers,
            memory=parse_bytes(shared.memory),
            device=shared.device,
            save=save,
            predictions=predictions,
            progress=progress_wanted(),
        )
    finally:  # the heads may be there although a baseline failed
        if out.is_file():
            _say_where(out, save)
    for note in found.notes:
        logger.info("%s", note)
    return [*found.guesses, *found.heads, *found.random]


def _say_where(out: Path, save: Path | None) -> None:
    """Say where the records are, and the saved heads, if any."""
    logger.info("records: %s", out)
    if save is not None and save.exists():
        logger.info("saved heads: %s", save)
