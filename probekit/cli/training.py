"""Run what the command line asks for, and say where the records are."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probekit.cli.plan import first_label, make_plan
from probekit.cli.target import Target
from probekit.cli.training_options import TrainingOptions
from probekit.cli.values import parse_bytes

if TYPE_CHECKING:
    from probekit.results import Record

logger = logging.getLogger(__name__)


def run(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str | None,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
    engine: str = "local",
) -> "list[Record]":
    """Train every combination of the options, and say where the records are.

    Args:
        target: the features.
        shared: options of all training commands.
        head: heads; what the protocol compares if unset.
        depths: largest layers that heads may see.
        epochs: passes over the training sentences; the protocol's if unset.
        evals: how often dev is scored.
        save: folder for the trained heads.
        predictions: write predictions beside the records.
        workers: worker processes.
        engine: what runs them.
    """
    from probekit.cli.output import progress_wanted
    from probekit.sweeps import sweep

    out = shared.out or target.default_out(first_label(shared))
    records = sweep(
        make_plan(target, shared, head=head, depths=depths, epochs=epochs, evals=evals),
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
    logger.info("records: %s", out)
    if save is not None:
        logger.info("saved heads: %s", save)
    return records


def with_baselines(
    target: Target,
    shared: TrainingOptions,
    *,
    head: str,
    depths: Sequence[int | None],
    epochs: str | None,
    evals: int,
    save: Path | None = None,
    predictions: bool = False,
    workers: int = 1,
) -> "list[Record]":
    """Train heads with their baselines; return all records, and say what could not be had."""
    from probekit.baselines import check_plan, run_baselines
    from probekit.cli.output import progress_wanted

    plan = make_plan(target, shared, head=head, depths=depths, epochs=epochs, evals=evals)
    check_plan(plan)
    run(
        target,
        shared,
        head=head,
        depths=depths,
        epochs=epochs,
        evals=evals,
        save=save,
        predictions=predictions,
        workers=workers,
    )
    found = run_baselines(
        plan,
        out=shared.out or target.default_out(first_label(shared)),
        location=target.location,
        workers=workers,
        memory=parse_bytes(shared.memory),
        device=shared.device,
        progress=progress_wanted(),
    )
    for note in found.notes:
        logger.info("%s", note)
    return [*found.guesses, *found.heads, *found.random]
