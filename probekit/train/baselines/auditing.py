"""An audit: which simpler readers predict the labels of a probe as well as it does."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from probekit.base.kinds import KINDS
from probekit.base.registry import choose
from probekit.data.token_choice import TokenChoice
from probekit.errors import DataError, EntryNotFoundError, OptionError, RecordError
from probekit.features import FeatureView, Location, Splits
from probekit.metrics import scale_of
from probekit.results import Record
from probekit.results.comparison import Judged
from probekit.results.comparison.judging import judge
from probekit.results.comparison.runs import Pair, RecordedRun
from probekit.results.log import predictions_folder
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.scored import SCORE_OF, reported_split
from probekit.results.summaries.typeset import Cell, Column, Table, score_column
from probekit.results.summaries.wording import metric_text
from probekit.train.baselines.baseline_records import Ledger, guess_records
from probekit.train.baselines.guesses import (
    TEXT_READERS,
    majority,
    memorised,
    reads_without,
    trained_again,
    without_part,
)
from probekit.train.baselines.held_against import random_records
from probekit.train.sweeps.resolve import Run, resolve
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.run_options import Data, Sample
from probekit.train.sweeps.run_views import open_splits, scored_views
from probekit.train.sweeps.specs import TrainSpec

CHANCE = "majority"

Verdict = Literal["as well", "in part", "not surely"]
"""How a reader reads the labels: as well as the probe, as far as one can tell; surely, but the
probe surely better; or not surely better than the most frequent class."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reader makes of the labels of a probe.

    Attributes:
        reader: its name.
        above_chance: its score less that of the most frequent class.
        behind_probe: the probe's score less its own.
        shortcut: the verdict that shows a shortcut. A simpler reader does as well then. The probe
            itself, on texts without a part, is left with nothing.
    """

    reader: str
    above_chance: Judged
    behind_probe: Judged
    shortcut: Verdict = "as well"

    @property
    def verdict(self) -> Verdict:
        """How it reads the labels."""
        if self.above_chance.verdict != "higher":
            return "not surely"
        return "in part" if self.behind_probe.verdict == "higher" else "as well"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What else reads the labels of a probe.

    Levels of significance are corrected (Holm 1979) for all comparisons with the most frequent
    class together, and for all of the probe with a reader together.

    Attributes:
        probe: the probe's score less that of the most frequent class.
        readings: by reader.
        notes: which readers could not be had, and why; what else must be known.
    """

    probe: Judged
    readings: Sequence[Reading]
    notes: Sequence[str]

    @property
    def shortcuts(self) -> list[str]:
        """The readers that show a shortcut."""
        return [one.reader for one in self.readings if one.verdict == one.shortcut]

    @property
    def passed(self) -> bool:
        """Whether the probe is surely above chance, and no reader shows a shortcut."""
        return self.probe.verdict == "higher" and not self.shortcuts

    def to_json(self) -> list[dict[str, Any]]:
        """Return an object for each reader."""
        common = {"passed": self.passed, "notes": list(self.notes)}
        common["probe_above_chance"] = asdict(self.probe)
        return [asdict(one) | {"verdict": one.verdict} | common for one in self.readings]


def audit_table(audited: Audit) -> Table:
    """Return what each reader scores, how far the probe is ahead of it, and the verdict."""
    readings, probe = audited.readings, audited.probe
    scale = scale_of(probe.metric)
    scores, differences = [], []
    for judged in (reading.behind_probe for reading in readings):
        half = None if judged.low is None or judged.high is None else (judged.high - judged.low) / 2
        scores.append(Cell(Interval(judged.score_b, None, 1), scale))
        differences.append(Cell(Interval(judged.difference, half, judged.n_seeds), scale))
    columns = [
        Column("reader", [reading.reader for reading in readings], words=True),
        score_column(f"{probe.split} score", scores),
        score_column("probe ahead by", differences),
        Column("reads the labels", [reading.verdict for reading in readings], words=True),
    ]
    lines = [
        f"the probe scores {scale.text(probe.score_a)}, the most frequent class "
        f"{scale.text(probe.score_b)}",
        "as well: surely above chance, and the probe not surely above it; in part: both surely; "
        f"not surely: not surely above chance (paired over {probe.over}, 5 % after Holm)",
        *audited.notes,
        f"the audit {'passed' if audited.passed else 'failed'}",
    ]
    if audited.shortcuts:
        lines[-1] += f": {', '.join(audited.shortcuts)}"
    if probe.verdict != "higher":
        lines.insert(0, "the probe itself is not surely above chance: there is nothing to audit")
    how = "± half width of the 95 % interval, not corrected"
    return Table(columns, lines, f"{metric_text(probe.metric)}; {how}")


def audit(
    run: RecordedRun,
    *,
    out: Path,
    location: Location,
    split: str | None = None,
    without: Sequence[str] = (),
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
        without: parts of whole texts, as ``--only`` names tokens (but for ``last:N``); the probe
            itself reads the texts without each, of which those that change go through the model.
        device: what computes.
        workers: worker processes.
        progress: show progress on stderr.

    Raises:
        RecordError: the run kept no predictions, or is of an earlier version; or those of a reader
            are gone.
        OptionError: its labels are no classes; or a part is to be removed from words, or from the
            texts of a fine-tuned model; or is no part.
        EntryNotFoundError: the cache does not hold its features.
    """
    first, shown = run.records[0], split or reported_split(run.records)
    choose("split", shown, SCORE_OF)
    _check_predicted(run.records, run.text, "run the same command again with --predictions")
    plan = [_spec(record, run.text) for record in run.records]
    splits, of_run = _opened(plan[0], first.entry, location)
    kind = KINDS[splits.kind]
    if kind.targets != "classes":
        raise OptionError(f"an audit is of classes, and {first.label} is of kind {kind.name}.")
    runs = [resolve(spec, splits) for spec in plan]
    own = {"memorised": memorised} if kind.of_words else TEXT_READERS
    folder = predictions_folder(out)
    guess = partial(guess_records, splits=splits, ledger=Ledger(out), predictions=folder)
    notes, rules = [], dict[str, TokenChoice]()
    if shown == "dev" and any(record.select == "dev" for record in run.records):
        notes.append("dev chose the probe's strength or checkpoint too, which favours the probe")
    view = scored_views(runs[0].spec, splits).get(shown) if without else None
    for name in without:
        rules[name], note = _removed(name, plan, view, shown)
        notes.append(note)
    by_name: dict[str, list[Record]] = defaultdict(list)
    for record in guess(runs, guesses={CHANCE: majority, **own}):
        by_name[record.head].append(record)
    lacking = _read_without(rules, run, runs, guess, of_run, device)
    by_name |= lacking
    train = partial(
        sweep, out=out, workers=workers, device=device, progress=progress, predictions=True
    )
    read = [{**vars(s.of(Data)), **vars(s.of(Sample)), "pooling": s.pooling} for s in plan]
    layer_0 = [TrainSpec(**one | {"point": None}, head="last", layers="0") for one in read]
    try:
        by_name["embeddings"] = train(layer_0, location=of_run)
    except (DataError, EntryNotFoundError, OptionError) as error:
        notes.append(f"embeddings alone were not read: {error}")
    if not any(spec.tunes for spec in plan):
        by_name["random weights"], _ = random_records(plan, splits, location, train)
    if not by_name["random weights"]:
        del by_name["random weights"]
        notes.append("no random weights: extract the task again with --random-init 0 to have them")
    for name, records in by_name.items():
        _check_predicted(records, f"{out}: {name}", f"delete {out} and run the audit again")
    return _audited(run, by_name, shown, notes, lacking)


def _opened(spec: TrainSpec, entry: str, location: Location) -> tuple[Splits, Location]:
    """Return the features of a run, and where they are: its own where others match as well."""
    try:
        splits = open_splits(spec, location)
        if splits.manifest.key == entry:
            return splits, location
    except EntryNotFoundError:
        pass  # several match
    own = replace(location, entry=entry)
    return open_splits(spec, own), own


def _read_without(
    rules: Mapping[str, TokenChoice],
    probe: RecordedRun,
    runs: Sequence[Run],
    guess: Callable[..., list[Record]],
    location: Location,
    device: str,
) -> dict[str, list[Record]]:
    """Let a probe read texts without parts; return its records by reader.

    Args:
        rules: the parts, by name.
        probe: records, one for each seed.
        runs: the same, resolved.
        guess: `guess_records` of these features.
        location: where they are.
        device: what computes.

    Raises:
        RecordError: the probe cannot be trained again as it was.
    """
    found: dict[str, list[Record]] = defaultdict(list)
    for record, run in zip(probe.records, runs, strict=True) if rules else ():
        spec = _spec(record, probe.text)
        head = cache(partial(trained_again, spec, record.key, location, device))
        readers = {
            f"{record.head} without {name}": reads_without(rule, head, device)
            for name, rule in rules.items()
        }
        for reader in guess([run], guesses=readers, of_heads=True):
            found[reader.head].append(reader)
    return found


def _removed(
    name: str, plan: Sequence[TrainSpec], view: FeatureView | None, split: str
) -> tuple[TokenChoice, str]:
    """Return what is removed of the texts of a split, and what its row means.

    Raises:
        RecordError: there is no such split.
        OptionError: it is no part of these texts; or the probe reads words, or trains its model.
    """
    rule, reason = TokenChoice.parse(name, "--without"), None
    changed = 0
    if view is None:
        raise RecordError(f"the probe has no {split} score: choose another --split.")
    if (per := KINDS[view.kind].per) != "text":
        reason = f"it removes parts of whole texts, and this probe reads a {per}"
    elif any(spec.tunes for spec in plan):
        reason = "it is for probes of a frozen model"
    elif view.entry.examples.has("kept"):
        reason = "it reads whole texts, and this entry keeps some of their tokens (--only)"
    elif rule.last is not None:
        reason = "name a part of the text, such as regex:R"
    elif not (changed := sum(without_part(text, rule) != text for text in view.texts)):
        reason = f"no {split} text has it"
    if reason:
        raise OptionError(f"--without {name}: {reason}.")
    of = f"{changed:,} of {view.n_examples:,} {split} texts have it"
    return rule, (
        f"without {name}: the probe itself, on texts without it ({of}); if it is not surely above "
        "chance then, it may read nothing else"
    )


def _check_predicted(records: Sequence[Record], what: str, remedy: str) -> None:
    """Refuse records whose predictions are not there.

    Raises:
        RecordError: one was not kept, or its file is gone.
    """
    if any(r.predictions is None or not Path(r.predictions).is_file() for r in records):
        raise RecordError(f"{what} has no predictions, and an audit compares those: {remedy}.")


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


def _audited(
    probe: RecordedRun,
    by_name: Mapping[str, Sequence[Record]],
    split: str,
    notes: Sequence[str],
    lacking: Collection[str],
) -> Audit:
    """Compare the probe and every reader with chance, and the probe with every reader.

    Args:
        probe: the run.
        by_name: records of the most frequent class and of each reader.
        split: whose scores are compared.
        notes: see `Audit`.
        lacking: the readers that are the probe itself, on texts without a part.

    Raises:
        RecordError: one of them has no score on the split.
    """
    # random weights have another model's name, and are compared all the same
    model = probe.records[0].model
    runs = {
        name: RecordedRun.of(name, [replace(record, model=model) for record in records])
        for name, records in by_name.items()
    }
    chance = runs.pop(CHANCE)
    above: list[Pair] = [(run, chance) for run in (probe, *runs.values())]
    behind: list[Pair] = [(probe, run) for run in runs.values()]
    metric, data = probe.records[0].metric, ()
    of_chance, of_readers = (judge({data: pairs}, split, metric) for pairs in (above, behind))
    if (len(of_chance), len(of_readers)) != (len(above), len(behind)):
        raise RecordError(f"a reader has no {split} score: choose another --split.")
    readings = zip(runs, of_chance[1:], of_readers, strict=True)
    return Audit(
        probe=of_chance[0],
        readings=[
            Reading(
                reader=name,
                above_chance=higher,
                behind_probe=lower,
                shortcut="not surely" if name in lacking else "as well",
            )
            for name, higher, lower in readings
        ],
        notes=notes,
    )
