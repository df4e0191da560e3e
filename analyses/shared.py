"""What the analyses share: their arguments, resumable runs, tables and paired differences."""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from probekit import Location, Record, TrainSpec, open_features, product, sweep
from probekit.metrics import scale_of
from probekit.results.comparison.judging import Judged, family, judge
from probekit.results.comparison.runs import settings, with_reference
from probekit.results.summaries.diagnosis import MARK, copied_texts, marks
from probekit.results.summaries.grouping import check_seeds, grouped
from probekit.results.summaries.interval import (
    Drawn,
    Interval,
    drawn_text,
    interval,
    student_p,
    undecided,
)
from probekit.results.summaries.scored import Score
from probekit.results.summaries.typeset import Column, markdown_table
from probekit.results.summaries.wording import model_text, value_text
from probekit.results.tables import score_table
from probekit.train.sweeps.fitting import FIRST_SEED, selected_score
from probekit.train.sweeps.specs import depths

RESULTS = Path(__file__).parent / "results"

Run = Callable[[Sequence[TrainSpec]], list[Record]]
"""Trains the runs of a plan that are not recorded yet, and returns the records of all."""

LIGHT = ("last", "mean", "p32", "scalar-mix", "attention-fusion")
"""Heads with at most d values in all."""

SOLVED = ("last", "mean", "p32", "attention-fusion")
"""Light heads of the analyses on converged fits, which solve them."""

LARGE = ("concat", "dwatt")
"""Large heads of these, whose rates are searched."""

NEW = "extra-layers"
"""New layers in place of a fusion (DWAtt's R26+), one up to 12 blocks, two beyond."""

STAR = rf"\{MARK}"
"""`MARK`, as Markdown shows it."""

PUBLISHED = {**dict.fromkeys(LIGHT, 2e-3), **dict.fromkeys((*LARGE, NEW), 5e-5)}
"""Learning rates of the papers: attention fusion's for light heads, DWAtt's for its own."""


def argument_parser(
    description: str | None,
    models: Literal["model", "models"] | None = None,
    *,
    data: bool = False,
) -> argparse.ArgumentParser:
    """Return a parser of what `runner` needs, ``cache`` and ``workers``, and of a model or several.

    Args:
        description: the docstring of the script.
        models: the name of its models: ``model`` is one, ``models`` are one or more; None has none.
        data: the script extracts, so it takes the folder of the data, too.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if models is not None:
        parser.add_argument(models, nargs="+" if models == "models" else None)
    if data:
        parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--workers", type=int, default=1)
    return parser


def models_and_large(description: str | None) -> argparse.Namespace:
    """Return ``models``, those of ``large`` that get the large heads too, and what runs need."""
    parser = argument_parser(description, "models")
    parser.add_argument("--large", nargs="*", default=[], metavar="MODEL")
    return parser.parse_args()


def heads_of(model: str, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the heads of a model of `models_and_large`."""
    return (*SOLVED, *LARGE) if model in args.large else SOLVED


def runner(records: Path, args: argparse.Namespace, *, predictions: bool = False) -> Run:
    """Return a function that runs a plan with the records in a file."""

    def run(plan: Sequence[TrainSpec]) -> list[Record]:
        return sweep(
            plan,
            out=records,
            location=Location(cache=args.cache),
            workers=args.workers,
            predictions=predictions,
            progress=True,
        )

    return run


def trained_into(
    folder: Path, spec: TrainSpec, records: Path, args: argparse.Namespace
) -> list[Record]:
    """Train a run if it is missing, and save it into a folder; return its record."""
    where = Location(cache=args.cache)
    return sweep([spec], out=records, location=where, save=folder, progress=True)


def converged_plan(
    base: TrainSpec, heads: Iterable[str], choices: Mapping[str, Sequence[Any]], **steps: Any
) -> list[TrainSpec]:
    """Return every combination of choices for heads: light ones solved, large ones searched.

    Args:
        base: options of all runs.
        heads: of `SOLVED` and `LARGE`.
        choices: other options, each with its values.
        steps: how the large heads are trained.
    """
    light = [head for head in heads if head in SOLVED]
    large = [head for head in heads if head in LARGE]
    searched = replace(base, fit="adam", lr="search", **steps)
    plans = [(base, light), (searched, large)]
    return [spec for one, own in plans if own for spec in product(one, {"head": own, **choices})]


def with_rates(
    base: TrainSpec,
    heads: Iterable[str],
    choices: Mapping[str, Iterable[Any]],
    rates: Mapping[str, float],
) -> list[TrainSpec]:
    """Return every combination of choices for heads, each at its rate."""
    plan = product(base, choices)
    return [replace(one, head=head, lr=rates[head]) for head in heads for one in plan]


def at_best_rates(
    run: Run,
    settings: Iterable[TrainSpec],
    choices: Callable[[TrainSpec], Iterable[TrainSpec]],
    seeds: Iterable[int],
    n_trials: int = 1,
) -> list[Record]:
    """Return runs of settings, each at the best of some rates.

    The best is by the mean of trials on seeds that are not reported, on what chooses the
    checkpoint. A rate at which a trial diverged is not chosen.

    Args:
        run: trains a plan.
        settings: one run of each, of any seed.
        choices: the same run at every rate to choose among.
        seeds: that are reported.
        n_trials: seeds of trials.
    """
    plan = []
    seeds = [*seeds]
    for setting in settings:
        rates = [*choices(setting)]
        trials = run([replace(at, seed=FIRST_SEED + n) for at in rates for n in range(n_trials)])
        # a trial that diverged has no score
        scores = [-math.inf if one is None else one for one in map(selected_score, trials)]
        means = np.reshape(scores, (len(rates), n_trials)).mean(1)
        plan += product(rates[means.argmax()], {"seed": seeds})
    return run(plan)


def backbone_rates(rates: Iterable[float]) -> Callable[[TrainSpec], list[TrainSpec]]:
    """Return what sets each of some rates of the model in a run."""
    return lambda setting: [replace(setting, rates=(("backbone", rate),)) for rate in rates]


SINGLE = "best-layer"
"""What `best_single` calls its runs, in place of a head."""


def single_layers(base: TrainSpec, cache: Path, seeds: Iterable[int]) -> list[TrainSpec]:
    """Return probes of every layer that `p32` mixes, each by itself and with each seed."""
    splits = open_features(base.model, base.task, base.label, Location(cache=cache))
    every = depths(splits.manifest.n_blocks, 1, None)[1:]
    return product(replace(base, head="last"), {"depth": every, "seed": seeds})


def best_single(records: Iterable[Record]) -> list[Record]:
    """Return of some probes of single layers those of the best one, under the name of `SINGLE`.

    Of every setting and seed it is what scores best on what chose the strength of L2, or the
    checkpoint.
    """
    of_setting: dict[tuple[Any, ...], list[Record]] = {}
    for one in records:
        read = (one.spec.get("point"), one.spec.get("token_head"))
        key = (one.model, one.task, one.shots, one.fraction, one.seed, *read)
        of_setting.setdefault(key, []).append(one)
    found = []
    for own in of_setting.values():
        sign = scale_of(own[0].metric).sign
        scored = [(score, one) for one in own if (score := selected_score(one)) is not None]
        _, best = max(scored, key=lambda pair: sign * pair[0])
        layers = tuple(sorted({layer for one in own for layer in one.layers}))
        found.append(replace(best, head=SINGLE, depth=None, layers=layers))
    return found


def subject(text: str) -> TrainSpec:
    """Return the spec of MODEL:TASK[:LABEL], with head `last`; a type of argument."""
    model, task, *label = text.split(":")
    return TrainSpec(model=model, task=task, label=next(iter(label), None), head="last")


def of_head(records: Iterable[Record], head: str) -> list[Record]:
    """Return the records of a head, which may be written with its settings."""
    return [record for record in records if record.head == head.partition(":")[0]]


def section(title: str, records: Sequence[Record]) -> str:
    """Return a titled table with what stands below it."""
    return f"## {title}\n\n{score_table(records).text('markdown')}"


def judged(
    title: str,
    records: Sequence[Record],
    against: str,
    *,
    by: Sequence[str] = (),
    apart: Sequence[str] = (),
) -> str:
    """Return a titled table of scores, each with its difference to the reference of the same data.

    Differences are in points with their 95 % intervals, over seeds and sentences together where
    seeds differ; in bold what is sure at 5 % after Holm's correction of all rows of the table. A
    star marks the score of runs with a trouble, which a line below the table names.

    Args:
        title: of the table.
        records: of the rows and their references; test is compared where there is one, else dev.
        against: the reference: a head, or a condition.
        by: options that tell rows apart, beside model, task and head.
        apart: options that a row and its reference have in common.
    """
    runs = settings(records)
    found = []
    for group in grouped(records, apart).values():
        own = {key: run for key, run in runs.items() if run.records[0] in group}
        for data, pairs in with_reference(group, own, against).items():
            split = "dev" if pairs[0][0].records[0].test_score is None else "test"
            found += judge({data: pairs}, split)
    by_name = {one.a: one for one in family(found)}
    lines = []
    compared = [run for run in runs.values() if run.text in by_name or not apart]
    for run in sorted(compared, key=lambda run: run.records[0].model):
        first = run.records[0]
        names = [model_text(first.model), first.task, f"`{first.head}`"]
        names += [value_text(name, getattr(first, name)) for name in by]
        score = "eval_score" if first.test_score is None else "test_score"
        starred = cell(run.records, score) + STAR * bool(marks(run.records))
        lines.append([*names, starred, difference_text(by_name.get(run.text))])
    header = ["model", "task", "head", *by, "score", f"less `{against}`"]
    below = [sure_text(by_name.values())]
    troubles = marks([record for run in runs.values() for record in run.records])
    below += [f"{STAR} {', '.join(troubles)}"] * bool(troubles)
    below += [f"{line}." for line in copied_texts(records)]
    return "\n\n".join([f"## {title}", markdown(header, lines, words=3 + len(by)), *below])


def sure_text(differences: Collection[Judged]) -> str:
    """Return how many differences of a table are sure, and what their intervals are over."""
    sure = sum(judged.verdict is not None for judged in differences)
    return f"{sure} of {len(differences)} differences are sure. {over_text(differences)}"


def over_text(found: Iterable[Judged]) -> str:
    """Return what some intervals are over, such as seeds and 231 documents, as a sentence."""
    over: dict[str, list[Drawn]] = {}
    for one in found:
        if one.drawn is not None:
            both = "seeds and " * (one.over or "").startswith("seeds and ")
            over.setdefault(both, []).append(one.drawn)
        elif one.over is not None:
            over.setdefault(one.over, [])
    texts = [f"{before}{drawn_text(drawn)}" for before, drawn in over.items()]
    return f"Intervals are over {'; or over '.join(texts)}." if texts else ""


def signed(mean: float, low: float, high: float, factor: float = 100.0) -> str:
    """Return a difference with its interval, in points: ``+3.1 (+1.1 to +5.1)``."""
    return f"{mean * factor:+.1f} ({low * factor:+.1f} to {high * factor:+.1f})"


def mean_differences(best: list[Record], kind: str, reference: str) -> str:
    """Return the mean difference to a reference over tasks, in bold where it is sure (Holm).

    Args:
        best: records of each task, named by their heads; those of several seeds are averaged.
        kind: what such a name is of: "point".
        reference: the name to which the others are compared.
    """
    scores = defaultdict[tuple[str, str, str], list[float]](list)
    for one in best:
        scores[one.model, one.task, one.head].append(one.test_score or 0.0)
    gaps = defaultdict[tuple[str, str], list[float]](list)
    for (model, task, name), seeds in scores.items():
        if name != reference:
            gaps[model, name].append(fmean(seeds) - fmean(scores[model, task, reference]))
    unsure = undecided({key: student_p(each) for key, each in gaps.items()})
    lines = []
    for (model, name), each in gaps.items():
        mean = interval(each)
        text = signed(mean.mean, mean.low, mean.high)
        text = text if (model, name) in unsure else f"**{text}**"
        lines.append([model_text(model), f"`{name}`", str(len(each)), text])
    return markdown(["model", kind, "tasks", f"less `{reference}`"], lines)


def difference_text(found: Judged | None) -> str:
    """Return a difference in points with its interval, in bold where it is sure; or a dash."""
    if found is None:
        return "-"
    factor = scale_of(found.metric).factor
    text = f"{found.difference * factor:+.1f}"
    if found.low is not None and found.high is not None:
        text = signed(found.difference, found.low, found.high, factor)
    return f"**{text}**" if found.verdict else text


def cell(records: Sequence[Record], score: Score = "test_score") -> str:
    """Return the mean score of some seeds of one run with its interval; a dash without any."""
    if not records:
        return "-"
    check_seeds(records, records[0].head)
    found = interval(getattr(record, score) for record in records)
    return interval_text(found.scaled(scale_of(records[0].metric).factor))


def interval_text(found: Interval, *, sign: bool = False, decimals: int = 1) -> str:
    """Return ``mean ± half width``."""
    mean = f"{found.mean:{'+' if sign else ''}.{decimals}f}"
    return mean if found.half is None else f"{mean} ± {found.half:.{decimals}f}"


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """Return a Markdown table whose first columns hold words and the others numbers."""
    columns = enumerate(zip(header, *lines, strict=True))
    return markdown_table(
        [Column(head, cells, words=n < words) for n, (head, *cells) in columns]
    ).rstrip()


def write(name: str, parts: Iterable[str]) -> None:
    """Write the parts of a text to ``results/<name>.md`` and print them."""
    text = "\n\n".join(part.strip() for part in parts)
    (RESULTS / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    print(text)
