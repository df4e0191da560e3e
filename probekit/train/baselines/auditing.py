"""An audit: which simpler readers predict the labels of a probe as well as it does."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from probekit.base.kinds import KINDS
from probekit.errors import DataError, EntryNotFoundError, OptionError, RecordError
from probekit.features import Location
from probekit.metrics import scale_of
from probekit.results import Record
from probekit.results.comparison import Judged
from probekit.results.comparison.judging import judge
from probekit.results.comparison.runs import Pair, RecordedRun
from probekit.results.summaries.grouping import Key
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import reported_split
from probekit.results.summaries.typeset import Cell, Column, Table, score_column
from probekit.results.summaries.wording import metric_text
from probekit.train.baselines.baseline_records import Ledger, guess_records
from probekit.train.baselines.guesses import TEXT_READERS, majority, memorised
from probekit.train.baselines.held_against import random_records
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.run_options import Data, Sample
from probekit.train.sweeps.run_views import open_splits
from probekit.train.sweeps.specs import TrainSpec

CHANCE = "majority"

Verdict = Literal["as well", "in part", "not surely"]
"""How a reader reads the labels: as well as the probe, as far as one can tell; surely, but the
probe surely better; or not surely better than the most frequent class."""


def _interval(judged: Judged) -> Interval:
    """Return the difference of two runs with half of its interval."""
    half = None if judged.low is None or judged.high is None else (judged.high - judged.low) / 2
    return Interval(judged.difference, half, judged.n_seeds)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reader makes of the labels of a probe.

    Attributes:
        reader: its name.
        above_chance: its score less that of the most frequent class.
        behind_probe: the probe's score less its own.
    """

    reader: str
    above_chance: Judged
    behind_probe: Judged

    @property
    def verdict(self) -> Verdict:
        """How it reads the labels."""
        if self.above_chance.verdict != "higher":
            return "not surely"
        return "in part" if self.behind_probe.verdict == "higher" else "as well"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What else reads the labels of a probe.

    Attributes:
        readings: by reader; levels of significance are corrected for all of them (Holm 1979).
        notes: which readers could not be had, and why.
    """

    readings: Sequence[Reading]
    notes: Sequence[str]

    @property
    def passed(self) -> bool:
        """Whether no reader reads the labels as well as the probe."""
        return all(reading.verdict != "as well" for reading in self.readings)

    def to_json(self) -> list[dict[str, Any]]:
        """Return an object for each reader."""
        return [
            {**asdict(reading), "verdict": reading.verdict, "passed": self.passed}
            for reading in self.readings
        ]


def audit_table(audited: Audit) -> Table:
    """Return what each reader scores, how far the probe is ahead of it, and the verdict."""
    readings = audited.readings
    first = readings[0].behind_probe
    scale = scale_of(first.metric)
    differences = [_interval(reading.behind_probe) for reading in readings]
    columns = [
        Column("reader", [reading.reader for reading in readings], words=True),
        score_column(
            f"{first.split} score",
            [Cell(Interval(r.behind_probe.score_b, None, 1), scale) for r in readings],
        ),
        score_column("probe ahead by", [Cell(value, scale) for value in differences]),
        Column("reads the labels", [reading.verdict for reading in readings], words=True),
    ]
    chance = readings[0].above_chance.score_b
    lines = [
        f"the probe scores {scale.text(first.score_a)}, the most frequent class "
        f"{scale.text(chance)}",
        "as well: surely above chance, and the probe not surely above it; in part: both surely; "
        "not surely: not surely above chance (paired over "
        f"{first.over or 'nothing'}, 5 % after Holm)",
        *audited.notes,
    ]
    return Table(columns, lines, f"{metric_text(first.metric)}; ± half width of the 95 % interval")


def audit(
    run: RecordedRun,
    *,
    out: Path,
    location: Location,
    split: str | None = None,
    device: str = "auto",
    workers: int = 1,
    progress: bool = False,
) -> Audit:
    """Train simpler readers on the sentences of a run, and compare them with it.

    Whole texts are read by their length, a bag of words and TF-IDF, words by the class that each
    had most often; both by a linear probe of the embeddings alone (layer 0) and by the same head on
    random weights, where the cache has these.

    Args:
        run: the probe: records with predictions, one for each seed.
        out: records of the readers; what is there is not trained again.
        location: where entries and labels lie.
        split: whose scores are compared; None is test where there is one, else dev.
        device: what computes.
        workers: worker processes.
        progress: show progress on stderr.

    Raises:
        RecordError: the run kept no predictions, or is of an earlier version.
        OptionError: its labels are no classes.
        EntryNotFoundError: the cache does not hold its features.
    """
    first = run.records[0]
    if any(record.predictions is None for record in run.records):
        raise RecordError(
            f"{run.text} kept no predictions, and an audit compares those: run the same command "
            "again with --predictions."
        )
    plan = [_spec(record, run.text) for record in run.records]
    splits = open_splits(plan[0], location)
    kind = KINDS[splits.kind]
    if kind.targets != "classes":
        raise OptionError(f"an audit is of classes, and {first.label} is of kind {kind.name}.")
    runs = [resolve(spec, splits) for spec in plan]
    own = {"memorised": memorised} if kind.per == "word" else TEXT_READERS
    readers = {CHANCE: majority, **own}
    folder = out.parent / f"{out.stem}-predictions"
    records = guess_records(runs, splits, Ledger(out), readers, folder)
    train = partial(
        sweep, out=out, workers=workers, device=device, progress=progress, predictions=True
    )
    names = {record.key: record.head for record in records}
    notes: list[str] = []
    try:
        embedded = train([_embeddings(spec) for spec in plan], location=location)
        names |= {record.key: "embeddings" for record in embedded}
        records += embedded
    except (DataError, EntryNotFoundError, OptionError) as error:
        notes.append(f"embeddings alone were not read: {error}")
    random, missing = random_records(plan, splits, location, train)
    names |= {record.key: "random weights" for record in random}
    by_name: dict[str, list[Record]] = {}
    for record in [*records, *random]:
        by_name.setdefault(names[record.key], []).append(record)
    return Audit(
        readings=_judged(run, by_name, split or reported_split(run.records)),
        notes=[*notes, *missing],
    )


def _spec(record: Record, where: str) -> TrainSpec:
    """Return the options of a record's run.

    Raises:
        RecordError: the record does not hold them.
    """
    if not record.spec:
        raise RecordError(f"{where} is of an earlier version and does not hold its options.")
    given: dict[str, Any] = {**record.spec, "model": record.model, "task": record.task}
    rates = tuple((name, rate) for name, rate in given.pop("rates", ()))
    return TrainSpec(**given, rates=rates)


def _embeddings(spec: TrainSpec) -> TrainSpec:
    """Return a linear probe of layer 0 on the same sentences."""
    given = {**vars(spec.of(Data)), **vars(spec.of(Sample)), "pooling": spec.pooling}
    return TrainSpec(**given, head="last", layers="0")


def _judged(
    probe: RecordedRun, by_name: Mapping[str, Sequence[Record]], split: str
) -> list[Reading]:
    """Compare every reader with chance and the probe with every reader, in one family."""
    by_name = {name: _as(probe, records) for name, records in by_name.items()}
    chance = RecordedRun.of(CHANCE, by_name[CHANCE])
    names = [name for name in by_name if name != CHANCE]
    readers = [RecordedRun.of(name, by_name[name]) for name in names]
    pairs: list[Pair] = [pair for reader in readers for pair in ((reader, chance), (probe, reader))]
    data: Key = ()
    judged = judge({data: pairs}, split, probe.records[0].metric)
    return [
        Reading(reader=name, above_chance=above, behind_probe=behind)
        for name, above, behind in zip(names, judged[::2], judged[1::2], strict=True)
    ]


def _as(probe: RecordedRun, records: Sequence[Record]) -> list[Record]:
    """Return records under the name of the probe's model, which random weights do not have."""
    return [replace(record, model=probe.records[0].model) for record in records]
