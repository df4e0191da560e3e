"""What the diagnoses of records say, in words: the one place that tables and figures ask.

A record's ``diagnosis`` holds plain values by name, all of them optional. Of every fitter:
``one_class`` (all dev predictions are one class), ``one_value`` (all dev predictions are one
number, or all that is true), ``absent`` and ``single`` (classes of train without an example in the
draw, and with just one); of sets of labels ``thresholds`` (the probability above which each of
``labels`` is given) and ``thresholds_by`` (what chose them). Of a solver: ``folds`` (where a draw
allowed fewer than the default), ``converged``, ``iterations``, ``gradient``, ``tolerance``,
``strength`` (of L2, the chosen one), ``edge`` (``strongest`` or ``weakest``, where that is an end
of the path), ``objective``, ``strengths`` and ``strength_scores`` (of one that was left before the
end, as it was left); of a mixture, ``starts`` (how many), ``candidates`` and ``candidate_scores``,
and the ``chosen`` one.
Of a run that trains the model from a solved head: ``start_score`` (dev score of that head over the
cached rows).
Of descent: ``best_is_last`` (the best dev score is that of the last step), ``falling`` (the loss
still fell at the end), ``edge`` (``lowest`` or ``highest`` rate of a search).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from probekit.results.record import Record
from probekit.results.summaries.grouping import grouped, series
from probekit.results.summaries.wording import range_text

SAID_FROM = 0.01
"""Share of a split from which a line says it: fewer texts move an accuracy by under a point."""

_DROPPED = "without duplicates"
"""What the protocol says of runs with ``--drop-duplicates``."""

_WORDS = {
    ("texts", False): "are in train too; leave them out with --drop-duplicates",
    ("pairs", False): "share a text with train; leave its pairs out with --drop-duplicates",
    ("texts", True): "occur twice or more; --drop-duplicates keeps equal ones together",
    ("pairs", True): "share a text with another one; --drop-duplicates keeps these together",
}
"""What is said of texts or pairs; True: of those of train, where a part of it chose."""

SOLVERS = ("lbfgs", "ridge", "sae-probes")
"""Fitters that find the optimum, as records name them."""

MARK = "*"
"""What marks a row in a table whose runs have a trouble."""

_PLACES = 4  # most settings that a line names


def marks(records: Sequence[Record]) -> tuple[str, ...]:
    """Return what is wrong with any of some records, each trouble once, in a fixed order."""
    kinds = zip(*(record.troubles for record in records), strict=True)
    return tuple(text for texts in kinds for text in sorted(set(filter(None, texts))))


def marks_along(records: Sequence[Record], along: str) -> dict[Any, tuple[str, ...]]:
    """Return what is wrong with the runs of one curve, by their values of an option."""
    return {value: marks(group) for (value,), group in grouped(records, [along]).items()}


def notes(records: Sequence[Record]) -> list[str]:
    """Return the lines under a table: what is wrong with its runs, and what data they had.

    Nothing is said where nothing is wrong. A trouble is followed by how many runs have it and by
    their settings, if these are few: ``not converged in 2 of 30 runs (last, depth 3)``.

    Args:
        records: all that the table is made of.
    """
    troubles = "; ".join(_with_places(trouble, records) for trouble in marks(records))
    lines = [f"{MARK} {troubles}"] if troubles else []
    drawn = []
    for name in ("absent", "single"):
        if counts := _counts(records, name):
            single = max(counts) == 1
            classes = f"{range_text(counts)} {'class' if single else 'classes'}"
            have = f"{classes} {'has' if single else 'have'} one example"
            in_some = f" in {len(counts)} of {len(records)} runs"
            text = f"drawn without {classes}" if name == "absent" else have
            drawn.append(text + in_some * (len(counts) < len(records)))
    lines += ["; ".join(drawn)] if drawn else []
    solved = dict.fromkeys((r.head, r.seed) for r in records if same_for_all_seeds(r))
    seeds = Counter(head for head, _ in solved)
    if heads := [head for head, n in seeds.items() if n > 1]:
        solved_on = "is solved on all of train" if len(heads) == 1 else "are solved on all of train"
        lines.append(f"{', '.join(heads)} {solved_on}, so every seed gives the same score")
    if few := _counts(records, "folds"):
        lines.append(
            f"{len(few)} of {len(records)} runs used {range_text(few)} folds: no class of their "
            "draws has more examples"
        )
    if strengths := {r.l2 for r in records if r.fitter in SOLVERS and r.l2 is not None}:
        values = ", ".join(f"{value:g}" for value in sorted(strengths, reverse=True))
        lines.append(f"L2 fixed at {values}; omit --l2 to tune it")
    return [*lines, *copied_texts(records)]


def _with_places(trouble: str, records: Sequence[Record]) -> str:
    """Return a trouble with how many runs have it, and of which settings these are, if few."""
    hit = [record for record in records if trouble in record.troubles]
    if len(hit) == len(records):
        return trouble if len(records) == 1 else f"{trouble} in all {len(records)} runs"
    settings = series(records).items()
    names = [name for name, members in settings if any(trouble in r.troubles for r in members)]
    named = f" ({'; '.join(names)})" if len(names) <= _PLACES else ""
    return f"{trouble} in {len(hit)} of {len(records)} runs{named}"


def _counts(records: Sequence[Record], name: str) -> list[int]:
    """Return the counts, above 0, that the diagnoses of some records hold under a name."""
    values = [record.diagnosis.get(name) for record in records]
    return [value for value in values if isinstance(value, int) and value]


def same_for_all_seeds(record: Record) -> bool:
    """Say whether a run was solved on all of train: then nothing in it is drawn."""
    drawn = record.shots is not None or record.fraction not in (None, 1)
    return record.fitter in SOLVERS and not drawn


def copied_texts(records: Sequence[Record]) -> list[str]:
    """Return how much of what was scored was trained on as well; nothing where it is little.

    Texts were normalised before they were counted; a pair counts by each of its texts.

    Args:
        records: all that a table is made of.
    """
    shares: dict[tuple[tuple[str, bool], str], list[float]] = {}
    # tasks are named where they are few: those of a suite are not
    several = 1 < len({record.task for record in records}) <= _PLACES
    for record in [record for record in records if _DROPPED not in record.protocol]:
        for split, among in record.duplicates.items():
            counts = among.get("train", {})
            if counts.get("texts"):
                unit = "pairs" if "sharing" in counts else "texts"
                of = f"{record.task} {split}" if several else split
                share = counts.get("sharing", counts["normalised"]) / counts["texts"]
                key = (unit, split == "train"), f"{of} {unit}"
                shares.setdefault(key, []).append(share)
    said: dict[tuple[str, bool], list[str]] = {}
    for (kind, of), of_split in shares.items():
        if max(of_split) >= SAID_FROM:
            low_high = dict.fromkeys(
                f"{100 * share:.1f}" for share in (min(of_split), max(of_split))
            )
            said.setdefault(kind, []).append(f"{' to '.join(low_high)} % of {of}")
    return [f"{_listed(*parts)} {_WORDS[kind]}" for kind, parts in said.items()]


def _listed(*parts: str) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
