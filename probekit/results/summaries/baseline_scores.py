"""The baselines of a records file, put beside the heads that they belong to.

A records file holds the baselines of `probekit train --baselines` as records of their own. What
belongs to one head, and to one of its seeds, is a score of that head.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from probekit.metrics import COMPRESSION
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES, Key, options_of

RANDOM = "random weights"

Scores = Mapping[str, float]


@dataclass(frozen=True)
class _Sort:
    """One sort of baseline.

    Attributes:
        field: what says that a record is one: an option that is text.
        mark: what stands there; without it, it is the value of the head that it belongs to.
        apart: other options in which it differs from its head; it shares the seed.
        scores: what it says of its head, given both.
    """

    field: str
    mark: re.Pattern[str]
    apart: tuple[str, ...]
    scores: Callable[[Record, Record], Scores]

    def is_one(self, record: Record) -> bool:
        """Say whether a record is a baseline of this sort."""
        return bool(self.mark.search(getattr(record, self.field)))

    def key(self, record: Record) -> Key:
        """Return what a baseline and its head share."""
        shared = {n: v for n, v in options_of(record).items() if n not in self.apart}
        if self.field in shared and self.is_one(record):
            shared[self.field] = self.mark.sub("", shared[self.field])
        return (record.seed, *shared.values())


def _reported(head: Record, baseline: Record) -> float:
    """Return a baseline's score on test if the head has one there, else on dev."""
    tested = None if head.test_score is None else baseline.test_score
    return baseline.eval_score if tested is None else tested


def _control_scores(head: Record, control: Record) -> Scores:
    name = f"{'dev' if head.test_score is None else 'test'}/accuracy"
    if name not in head.scores or name not in control.scores:
        return {}
    real, random = head.scores[name], control.scores[name]
    return {"accuracy": real, "control/accuracy": random, "selectivity": real - random}


def _code_scores(head: Record, code: Record) -> Scores:
    names = ("bits per label", COMPRESSION)
    return {name: code.scores[name] for name in names if name in code.scores}


_GUESSED = (
    "head", "decoder", "options", "init", "freeze", "fitter", "select", "l2", "epochs", "evals",
    "lr", "rates", "batch_size", "optimizer", "layers", "depth", "normalize",
)  # fmt: skip
"""What a guess does not have."""

_DRAWN = _Sort(
    "model",
    re.compile(r"-random\d+$"),
    ("entry", "labels_fingerprint"),
    lambda head, random: {RANDOM: _reported(head, random)},
)
_CODE = _Sort("protocol", re.compile("^online code, "), ("metric",), _code_scores)
_CONTROL = _Sort(
    "label",
    re.compile(r" \(control \d+\)$"),
    ("labels_fingerprint", "metric"),
    _control_scores,
)
_SORTS: Sequence[_Sort] = (
    *(
        _Sort(
            "head",
            re.compile(f"^{name}$"),
            _GUESSED,
            lambda head, guess: {guess.head: _reported(head, guess)},
        )
        for name in BASELINES
    ),
    _DRAWN,
    _CONTROL,
    _CODE,
)


def without_baselines(records: Sequence[Record]) -> list[Record]:
    """Return the records that are no baseline."""
    return [record for record in records if not any(sort.is_one(record) for sort in _SORTS)]


def is_baseline(record: Record) -> bool:
    """Say whether ``train --baselines`` makes a record beside that of a head."""
    guessed = record.head in BASELINES or record.fitter == "none"
    return guessed or _CODE.is_one(record)


def rivals(records: Sequence[Record]) -> list[Record]:
    """Return the baselines that are scored as heads are: guesses, and random weights."""
    return [record for record in records if record.head in BASELINES or _DRAWN.is_one(record)]


def beside_heads(records: Sequence[Record], kept: Sequence[Record] = ()) -> list[Record]:
    """Return records with the scores of their baselines among their own ``scores``.

    Baselines are those of the same options and seed: ``majority`` and ``memorised`` (guesses
    without features), ``random weights``, ``accuracy``, ``control/accuracy`` and ``selectivity``,
    ``bits per label`` and ``compression``. Each is left out as a record where it belongs to a head
    among the others, and stays where it belongs to none.

    Args:
        records: any records.
        kept: those that stay as they are, whatever they belong to.
    """
    stay = {record.key for record in kept}
    by_record_key = {record.key: record for record in records}
    heads = without_baselines(records)
    for sort in _SORTS:
        baselines = [record for record in records if sort.is_one(record) and record.key not in stay]
        by_key = {sort.key(baseline): baseline for baseline in baselines}
        for head in heads if by_key else ():
            baseline = by_key.get(sort.key(head))
            if baseline is not None and (scores := sort.scores(head, baseline)):
                held = by_record_key[head.key]
                diverged = held.diverged or baseline.diverged
                merged = {**scores, **held.scores}  # what training wrote goes before
                by_record_key[head.key] = replace(held, scores=merged, diverged=diverged)
                by_record_key.pop(baseline.key, None)
    return list(by_record_key.values())
