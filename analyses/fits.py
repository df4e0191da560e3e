"""How the fits behind every score ended: what converged, and what did not.

From the records of all analyses; trials of a search and runs of guesses are left out.

    python analyses/fits.py            # seconds; no model, no data
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shared import RESULTS, markdown, write

from probekit import Record, load_records
from probekit.results.summaries.diagnosis import marks
from probekit.results.summaries.grouping import BASELINES, grouped
from probekit.results.summaries.wording import range_text

NAME = "fits"

KNOWN: Mapping[str, Callable[[Record], bool]] = {
    "not converged": lambda record: "converged" in record.diagnosis,
    "best at the edge of the search": lambda record: (
        "strength_scores" in record.diagnosis or record.rate_from == "searched"
    ),
    "loss still falling at the end": lambda record: "falling" in record.diagnosis,
}
"""Troubles as `marks` words their beginning, and whether a record says if it has one."""

INTRODUCTION = """\
Runs of every records file by fitter and head, from how many starts each solved mixture was fitted,
and how many runs have a trouble. *Not converged*: a solver's gradient was still above its
tolerance. *Best at the edge*: the chosen strength of L2, or the chosen rate, is the largest or the
smallest that was tried. *Loss still falling*: training by steps ended while the loss still fell. A
dash: the runs do not say, since their fitter has no such thing, they searched nothing, or were
scored at the end alone (published protocols). Tables mark scores of such runs with a star."""


def main() -> None:
    """Write the tables."""
    parts = [section(file) for file in sorted(RESULTS.glob("*.jsonl"))]
    write(NAME, ["# How the fits ended", INTRODUCTION, *parts])


def section(file: Path) -> str:
    """Return the table of a records file, and what it comes to."""
    every = [one for one in load_records(file) if not one.trial and one.head not in BASELINES]
    groups = sorted(grouped(every, ["fitter", "head"]).items())
    lines = [
        [
            fitter,
            f"`{head}`",
            f"{len(own)}",
            starts(own),
            *(count(trouble, own) for trouble in KNOWN),
        ]
        for (fitter, head), own in groups
    ]
    table = markdown(["fitter", "head", "runs", "starts", *KNOWN], lines, words=2)
    troubled = sum(any(has(trouble, one) for trouble in KNOWN) for one in every)
    silent = sum(not any(known(one) for known in KNOWN.values()) for one in every)
    ended = f"{troubled:,} of {len(every):,} runs have a trouble, {silent:,} say nothing of any."
    return f"## {file.stem}\n\n{table}\n\n{ended}"


def starts(records: Sequence[Record]) -> str:
    """Return from how many starts each run was fitted, such as ``2 to 5``; a dash if none says."""
    found = [one.diagnosis["starts"] for one in records if "starts" in one.diagnosis]
    return range_text(found) if found else "-"


def count(trouble: str, records: Sequence[Record]) -> str:
    """Return how many records have a trouble; a dash where none says whether it has."""
    if not any(map(KNOWN[trouble], records)):
        return "-"
    return f"{sum(has(trouble, one) for one in records)}"


def has(trouble: str, record: Record) -> bool:
    """Tell whether a record has a trouble."""
    return any(text.startswith(trouble) for text in marks([record]))


if __name__ == "__main__":
    main()
