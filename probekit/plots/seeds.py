"""What a figure says of its runs: how many seeds, how many diverged, what is wrong with some."""

from collections.abc import Iterable, Sequence

from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK, marks


def seeds_text(counts: Iterable[int]) -> str:
    """Return how many seeds a figure is over, such as ``5 seeds`` or ``3 to 5 seeds``.

    Args:
        counts: the number of seeds behind each thing that is drawn.
    """
    found = set(counts)
    low, high = min(found), max(found)
    if high == 1:
        return "one seed"
    return f"{high} seeds" if low == high else f"{low} to {high} seeds"


def diverged_text(records: Sequence[Record]) -> str:
    """Return ``; 1 of 5 runs diverged``, or nothing if none did."""
    diverged = sum(record.diverged for record in records)
    return f"; {diverged} of {len(records)} runs diverged" if diverged else ""


def marked_text(records: Sequence[Record]) -> str:
    """Return ``; * not converged``, what rows with an asterisk have; or nothing."""
    found = marks(records)
    return f"; {MARK} {', '.join(found)}" if found else ""
