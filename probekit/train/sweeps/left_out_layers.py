"""Runs without one of their layers, fitted again: what each layer has that the others have not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from probekit.errors import OptionError
from probekit.metrics.perplexity import ENDLESS
from probekit.results import Record
from probekit.results.record import BY_MEAN, BY_REFIT
from probekit.train.sweeps.resolve import Run
from probekit.train.sweeps.specs import TrainSpec

LOSS = "dev/loss"
"""What a record's scores call the loss on dev: nats of a row, or of a regression squared error."""


def check_ablation(runs: Sequence[Run], way: str) -> list[Run]:
    """Return the runs that have a layer to be left out: those of heads that read several.

    Args:
        runs: of one plan.
        way: ``mean`` or ``refit``.

    Raises:
        OptionError: none of them has, or one cannot be fitted again.
    """
    several = [run for run in runs if len(run.options.layers) > 1]
    if not several:
        heads = ", ".join(dict.fromkeys(run.member.head.name for run in runs))
        raise OptionError(
            f"--ablate {way} leaves out one layer after the other, and each of these runs reads "
            f"one alone ({heads}). Give a head that reads several, such as --head p32 or --head "
            "dwatt, or leave --ablate out."
        )
    saved = [run for run in several if run.spec.fusion_from or run.spec.init_from]
    if way == BY_REFIT and saved:
        raise OptionError(
            f"--ablate {BY_REFIT} fits a head again on other layers, and a saved head that a run "
            f"starts from reads just its own: give --ablate {BY_MEAN}, which fits nothing."
        )
    return several


def without_each(run: Run) -> dict[int, TrainSpec]:
    """Return, by layer, a run that leaves it out and has all other options as they were settled.

    So it has the same fitter and rates; a strength of L2 that is chosen is chosen anew.
    """
    layers = run.options.layers
    return {
        layer: replace(
            run.spec, layers=",".join(str(one) for one in layers if one != layer), left_out=layer
        )
        for layer in layers
    }


def with_ablation(record: Record, refitted: Mapping[int, Record]) -> Record:
    """Return a record with the dev loss without each layer less its own.

    Args:
        record: of the run with all layers.
        refitted: of the runs without one, by layer.

    Returns:
        No numbers where a loss is not finite.
    """
    found = {layer: one.scores[LOSS] - record.scores[LOSS] for layer, one in refitted.items()}
    finite = all(abs(one) < ENDLESS / 2 for one in found.values())
    return replace(record, ablated=BY_REFIT, ablation=found if finite else {})
