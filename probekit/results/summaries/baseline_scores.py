"""The baselines of a records file, put beside the heads that they belong to.

A records file holds the baselines of `probekit train --baselines` as records of their own. What
belongs to one head, and to one of its seeds, is a score of that head.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from probekit.metrics import COMPRESSION
from probekit.results.record import Record
from probekit.results.summaries.grouping import BASELINES, Key, options_of

RANDOM = "random weights"

_CONTROL = re.compile(r" \(control \d+\)$")
_CODE = "online code, "
_DRAWN = re.compile(r"-random\d+$")

Scores = Mapping[str, float]


@dataclass(frozen=True)
class _Sort:
    """One sort of baseline.

    Attributes:
        is_one: whether a record is one.
        apart: options in which it differs from its head; it shares the seed.
        of_head: a baseline's option to that of its head.
        scores: what it says of its head, given both.
    """

    is_one: Callable[[Record], bool]
    apart: tuple[str, ...]
    of_head: Callable[[str, object], object]
    scores: Callable[[Record, Record], Scores]


def _same(name: str, value: object) -> object:
    return value


def _of_weights(name: str, value: object) -> object:
    return _DRAWN.sub("", str(value)) if name == "model" else value


def _of_labels(name: str, value: object) -> object:
    return _CONTROL.sub("", str(value)) if name == "label" else value


def _of_rows(name: str, value: object) -> object:
    return str(value).removeprefix(_CODE) if name == "protocol" else value


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

_SORTS: Sequence[_Sort] = (
    *(
        _Sort(
            lambda record, name=name: record.head == name,  # type: ignore[misc]
            _GUESSED,
            _same,
            lambda head, guess: {guess.head: _reported(head, guess)},
        )
        for name in BASELINES
    ),
    _Sort(
        lambda record: bool(_DRAWN.search(record.model)),
        ("entry", "labels_fingerprint"),
        _of_weights,
        lambda head, random: {RANDOM: _reported(head, random)},
    ),
    _Sort(
        lambda record: bool(_CONTROL.search(record.label)),
        ("labels_fingerprint", "metric"),
        _of_labels,
        _control_scores,
    ),
    _Sort(lambda record: record.protocol.startswith(_CODE), ("metric",), _of_rows, _code_scores),
)


def without_baselines(records: Sequence[Record]) -> list[Record]:
    """Return the records that are no baseline."""
    return [record for record in records if not any(sort.is_one(record) for sort in _SORTS)]


def rivals(records: Sequence[Record]) -> list[Record]:
    """Return the baselines that are scored as heads are: guesses, and random weights."""
    return [one for one in records if one.head in BASELINES or _DRAWN.search(one.model)]


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
    found = {record.key: record for record in records}
    heads = without_baselines(records)
    for sort in _SORTS:
        own = [one for one in records if sort.is_one(one) and one.key not in stay]
        for head, baseline in _joined(heads, own, sort):
            scores = sort.scores(head, baseline)
            if scores:
                held = found[head.key]
                diverged = held.diverged or baseline.diverged
                merged = {**scores, **held.scores}  # what training wrote goes before
                found[head.key] = replace(held, scores=merged, diverged=diverged)
                found.pop(baseline.key, None)
    return list(found.values())


def _joined(
    heads: Sequence[Record], baselines: Sequence[Record], sort: _Sort
) -> Iterator[tuple[Record, Record]]:
    """Yield every head with its baseline of a sort; a baseline may belong to several heads."""
    by_key = {_key(one, sort, sort.of_head): one for one in baselines}
    for head in heads:
        baseline = by_key.get(_key(head, sort, _same))
        if baseline is not None:
            yield head, baseline


def _key(record: Record, sort: _Sort, of_head: Callable[[str, object], object]) -> Key:
    shared = {n: v for n, v in options_of(record).items() if n not in sort.apart}
    return (record.seed, *(of_head(name, value) for name, value in shared.items()))
