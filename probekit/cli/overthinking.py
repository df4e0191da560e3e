"""``probekit overthinking`` and ``exit``: what the probes of every depth say of each example."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.registry import choose, flag
from probekit.cli import arguments
from probekit.cli.output import print_json, progress_wanted, show
from probekit.cli.planned_runs import say_where
from probekit.cli.run_list import first_label, make_plan
from probekit.cli.spread import spread
from probekit.cli.training_options import OF_RUNS, Asked, Target, TrainingOptions
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results import Record

Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Hub id, local folder or .gguf file, or the path of an entry; or, without TASK, a "
        "records file or a folder of them, from which nothing is trained.",
    ),
]
_KEPT = ("cache", "json", "log_file")
"""Options that mean something, or nothing wrong, where records are read."""


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Which probes are looked at, on which split, and the figure of what is found."""

    head: Annotated[
        str, typer.Option("--head", help="Heads, separated by commas; of a records file likewise.")
    ] = "last"
    every: Annotated[int, typer.Option("--every", help="Distance between depths.")] = 1
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", help="Of a records file, only this value, e.g. shots=128. Repeatable."
        ),
    ] = None
    workers: Annotated[int, typer.Option("--workers", help="Worker processes.")] = 1
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="test or dev.", show_default="test where there are labels, else dev"
        ),
    ] = None
    samples: Annotated[int, typer.Option("--samples", help="Bootstrap samples.")] = 10_000
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Draw the figure as well: FILE.png, .svg, .pdf."),
    ] = None

    def check(self) -> None:
        """Refuse what cannot be asked of records, before any probe is trained for them."""
        from probekit.results.overthinking.estimates import Bootstrap
        from probekit.results.summaries.scored import SCORE_OF

        Bootstrap(samples=self.samples)
        if self.split is not None:
            choose("split", self.split, SCORE_OF)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a command was given to find records by."""

    source: str
    task: str | None
    probes: Probes
    asked: Mapping[str, Any]
    own: arguments.OwnData
    shared: TrainingOptions


@spread
def overthinking(
    model: Source,
    task: arguments.OptionalTask = None,
    *,
    probes: Probes,
    examples: Annotated[
        int, typer.Option("--examples", help="Show so many sentences, destructive ones first.")
    ] = 0,
    look: arguments.FigureLook,
    asked: Asked,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Count what earlier depths had right and the last has wrong, against chance.

    Probes that are not recorded are trained, as by `probekit depth`.
    """
    from probekit.results import overthinking as results
    from probekit.results.overthinking.examples import check_count
    from probekit.results.overthinking.report_text import overthinking_text

    look.check(probes.output)
    probes.check()
    check_count(examples)
    given = _Asked(source=model, task=task, probes=probes, asked=asked, own=own, shared=shared)
    records = _records(given)
    split, samples = probes.split, probes.samples
    found = results.overthinking(records, split=split, examples=examples, samples=samples)
    if probes.output is not None:
        _draw("overthinking", records, probes.output, split=split, look=look.parse())
    if shared.json:
        print_json([{"kind": "overthinking", **asdict(one)} for one in found])
    else:
        show(overthinking_text(found) + _notes_text(records), nl=False)


@spread
def exit_early(
    model: Source,
    task: arguments.OptionalTask = None,
    *,
    probes: Probes,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            help="Score that may be lost where thresholds are chosen; 0.01 is one point of 100.",
        ),
    ] = 0.01,
    below: Annotated[
        str,
        typer.Option(
            "--below",
            help="What a loss is counted from: the last depth, or best: the rule's best threshold.",
        ),
    ] = "last",
    look: arguments.FigureLook,
    asked: Asked,
    own: arguments.OwnData,
    shared: TrainingOptions,
) -> None:
    """Let sentences leave early at the probe of a depth: score against layers used.

    Probes that are not recorded are trained, as by `probekit depth`.
    """
    from probekit.results.overthinking import early_exit
    from probekit.results.overthinking.exit_thresholds import Allowance
    from probekit.results.overthinking.report_text import exit_text

    look.check(probes.output)
    probes.check()
    allowed = asdict(Allowance(tolerance=tolerance, below=below))
    given = _Asked(source=model, task=task, probes=probes, asked=asked, own=own, shared=shared)
    records = _records(given)
    split, samples = probes.split, probes.samples
    found = early_exit(records, split=split, samples=samples, **allowed)
    if probes.output is not None:
        _draw("exit", records, probes.output, split=split, look=look.parse(), **allowed)
    if shared.json:
        print_json([asdict(one) for one in found])
    else:
        show(exit_text(found) + _notes_text(records), nl=False)


def _notes_text(records: Sequence["Record"]) -> str:
    """Return what is wrong with the probes, as below a table."""
    from probekit.results.summaries.diagnosis import notes

    return "".join(f"\n{line}\n" for line in notes(records))


def _records(given: _Asked) -> "list[Record]":
    """Return the records of a file, or of probes that are trained where they are missing."""
    path = Path(given.source)
    if given.task is not None and path.suffix == ".jsonl" and path.is_file():
        raise OptionError(
            f"{path} is a records file, which stands alone: leave {given.task} out. For the "
            "records of several files, give the folder that holds them."
        )
    if given.task is None and _holds_records(path):
        return _read(path, given)
    if given.probes.where:
        raise OptionError(
            f"--where chooses among the records of a file, and {given.source} is a model; give "
            "the options of the runs themselves, such as --shots 128."
        )
    from probekit.metrics import METRICS
    from probekit.results.overthinking.depth_curves import metric_of_classes
    from probekit.train.sweeps.run import sweep
    from probekit.train.sweeps.specs import depths

    target = Target.of(given.source, given.task, given.own, given.shared, given.asked["group"])
    label, asked, shared = first_label(given.asked), given.asked, given.shared
    splits, probes = target.splits(label, asked["fit_on"]), given.probes
    metric_of_classes(METRICS[splits.metric], f"{target.model} {target.task}")
    every_depth = depths(splits.manifest.n_blocks, probes.every, asked["layers"])
    plan = make_plan(target, shared, asked, head=probes.head, depths=every_depth)
    out = shared.out or target.default_out(label)
    records = sweep(
        plan,
        out=out,
        location=target.location,
        predictions=True,
        workers=probes.workers,
        memory=arguments.parse_bytes(shared.memory, "--memory"),
        device=shared.device,
        track=shared.track,
        progress=progress_wanted(),
    )
    say_where(out)
    return records


def _holds_records(path: Path) -> bool:
    """Say whether a path is that of a records file, or of a folder of them, and of no entry."""
    from probekit.base.replacing import standing_files
    from probekit.store.layout import MANIFEST

    if path.is_dir():
        return not (path / MANIFEST).is_file() and bool(standing_files(path, ".jsonl"))
    return path.suffix == ".jsonl" or path.is_file()


def _read(path: Path, given: _Asked) -> "list[Record]":
    """Return the records of some heads in a file."""
    from probekit.cli.record_reading import read_records

    _check_nothing_to_train(path, given)
    heads = arguments.split_list(given.probes.head)
    conditions = [f"head={','.join(heads)}", *(given.probes.where or [])]
    return read_records([path], conditions)


def _check_nothing_to_train(path: Path, given: _Asked) -> None:
    """Refuse options of runs beside a records file, which says what its runs are."""
    usual = {name: field.default for name, field in OF_RUNS.fields.items()}
    typed = [name for name, one in given.asked.items() if one not in (None, usual[name])]
    for group in (given.shared, given.own):
        own = {field.name: field.default for field in fields(group)}
        typed += [
            name
            for name, value in vars(group).items()
            if name not in _KEPT and value is not None and value != own[name]
        ]
    typed += ["every"] * (given.probes.every != 1)
    if typed:
        raise OptionError(
            f"{flag(typed[0])}: {path} is a records file, from which nothing is trained; choose "
            "among its runs with --where, or give MODEL and TASK."
        )


def _draw(kind: str, records: "list[Record]", output: Path, **options: Any) -> None:
    from probekit.plots import PLOTS
    from probekit.plots.style import save_figure

    save_figure(PLOTS[kind](records, **options), output)
