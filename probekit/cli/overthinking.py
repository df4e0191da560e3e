"""``probekit overthinking`` and ``exit``: what the probes of every depth say of each example."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.registry import Panel, choose, option
from probekit.cli import arguments
from probekit.cli.output import print_json, show
from probekit.cli.record_reading import Runs, Where, read_records
from probekit.cli.spread import spread

if TYPE_CHECKING:
    from probekit.plots.style import Look
    from probekit.results import Record


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Which probes are looked at, on which split, and the figure of what is found."""

    head: str = option("last", "Heads, separated by commas.")
    where: Where = None
    split: str | None = option(
        None, "test or dev.", show_default="test where there are labels, else dev"
    )
    samples: int = option(10_000, "Bootstrap samples.", Panel.SHOWN)
    output: arguments.FigureFile = None
    json: arguments.Json = False

    def records(self, runs: Sequence[Path]) -> "Sequence[Record]":
        """Return the records of the heads, after a look at the other options."""
        from probekit.results.comparison.resampling import Bootstrap
        from probekit.results.summaries.scored import SCORE_OF

        Bootstrap(samples=self.samples)
        if self.split is not None:
            choose("split", self.split, SCORE_OF)
        heads = ",".join(arguments.split_list(self.head))
        return read_records(runs, [f"head={heads}", *(self.where or [])])

    def draw(
        self, kind: str, records: "Sequence[Record]", look: "Look | None", **options: Any
    ) -> None:
        """Draw the figure, if one is wanted."""
        from probekit.plots import PLOTS
        from probekit.plots.style import save_figure

        if self.output is not None:
            save_figure(PLOTS[kind](records, split=self.split, look=look, **options), self.output)


@spread
def overthinking(
    runs: Runs,
    *,
    probes: Probes,
    examples: Annotated[
        int, typer.Option("--examples", help="Show so many sentences, destructive ones first.")
    ] = 0,
    look: arguments.FigureLook,
) -> None:
    """Count what earlier depths had right and the last has wrong, against chance.

    RUNS are what `probekit depth` recorded.
    """
    from probekit.results import overthinking as results
    from probekit.results.overthinking.measure import check_count
    from probekit.results.overthinking.report_text import overthinking_text

    look.check(probes.output)
    check_count(examples)
    records = probes.records(runs)
    counted = results.overthinking(
        records, split=probes.split, examples=examples, samples=probes.samples
    )
    probes.draw("overthinking", records, look.parse())
    if probes.json:
        print_json([{"kind": "overthinking", **asdict(probe)} for probe in counted])
    else:
        show(overthinking_text(counted) + _notes_text(records), nl=False)


@spread
def exit_early(
    runs: Runs,
    *,
    probes: Probes,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            help="Score that may be lost where thresholds are chosen; 0.01 is one point of 100.",
        ),
    ] = 0.01,
    look: arguments.FigureLook,
) -> None:
    """Let sentences leave early at the probe of a depth: score against layers used.

    RUNS are what `probekit depth` recorded.
    """
    from probekit.results.overthinking import early_exit
    from probekit.results.overthinking.early_exit import check_tolerance
    from probekit.results.overthinking.report_text import exit_text

    look.check(probes.output)
    check_tolerance(tolerance)
    records = probes.records(runs)
    curves = early_exit(records, split=probes.split, samples=probes.samples, tolerance=tolerance)
    probes.draw("exit", records, look.parse(), tolerance=tolerance)
    if probes.json:
        print_json([asdict(curve) for curve in curves])
    else:
        show(exit_text(curves) + _notes_text(records), nl=False)


def _notes_text(records: Sequence["Record"]) -> str:
    """Return what is wrong with the probes, as below a table."""
    from probekit.results.summaries.diagnosis import notes

    return "".join(f"\n{line}\n" for line in notes(records))
