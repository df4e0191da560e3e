"""The lines between a table and its caption: what its marks mean, and what is wrong with its runs.

Nothing is said where there is nothing to say.
"""

from collections.abc import Mapping, Sequence

from probekit.results.comparison import BestDepth
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import notes
from probekit.results.tables.styles import Style


def footnotes(
    records: Sequence[Record], style: Style = "text", best: Mapping[str, BestDepth] | None = None
) -> str:
    """Return what stands under a table: a line for every curve's best depth, and the troubles.

    Args:
        records: all that the table is made of.
        style: ``text``, or ``markdown``, where every line is a paragraph.
        best: the best depths that the table marks; None for a table without depths.

    Returns:
        Whole lines, or nothing.
    """
    lines = [*_best_lines(best or {}), *notes(records)]
    if style == "markdown":
        return "\n".join(f"{_escaped(line)}\n" for line in lines)
    return "".join(f"{line}\n" for line in lines)


def _best_lines(best: Mapping[str, BestDepth]) -> list[str]:
    if len(best) == 1:
        return [one.text for one in best.values()]
    return [f"{name}: {one.text}" for name, one in best.items()]


def _escaped(line: str) -> str:
    """Return a line whose marks Markdown takes for neither a list nor a stroke."""
    return line.replace("*", r"\*").replace("~", r"\~")
