"""What holds the names of strangers: HTML in a notebook, and the cards of the Hub.

Everything is escaped here and nowhere else. Colours are those of the page, so that light and dark
themes both show it; where a notebook strips the style, plain tables are left.

Of a card, only what stands between two marks, and ``probekit`` in its head, is written again. Names
that are not probekit's own are escaped, so that none breaks a table or is read as markup.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_STYLE = """<style>
.probekit { line-height: 1.35; overflow-x: auto; }
.probekit table { border-collapse: collapse; border: none; margin: 0.4em 0 0.4em 0;
  font-variant-numeric: tabular-nums; }
.probekit tr, .probekit th, .probekit td { background: none; border: none; }
.probekit th, .probekit td { padding: 0.15em 1.2em 0.15em 0; text-align: right;
  vertical-align: top; white-space: nowrap; }
.probekit th.words, .probekit td.words { text-align: left; }
.probekit td.long { white-space: normal; overflow-wrap: anywhere; max-width: 50em; }
.probekit thead th { border-bottom: 1px solid currentColor; font-weight: 600; }
.probekit tbody th { font-weight: 400; opacity: 0.75; }
.probekit p { margin: 0.2em 0 0.2em 0; max-width: 60em; text-align: left; }
.probekit p.title { font-weight: 600; }
.probekit p.note { opacity: 0.75; }
</style>"""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters and those that turn the direction of what follows."""

MOST_ROWS = 60
"""Rows of a table that are shown; of more, how many are left out is said."""


class Markup(str):
    """HTML that a notebook shows as such."""

    def _repr_html_(self) -> str:
        """Return itself."""
        return str(self)


def spelled_out(text: str) -> str:
    """Return a text whose control characters are spelled out: a terminal would obey them."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def spelled_out_lines(text: str) -> str:
    """Return lines whose control characters are spelled out, but for their ends and tabs."""
    parts = re.split(r"(\r?\n|\t)", text)  # every second one is such
    return "".join(part if at % 2 else spelled_out(part) for at, part in enumerate(parts))


def plain(text: object) -> str:
    """Return a text as HTML shows it: escaped, control characters spelled out."""
    return escape(spelled_out(str(text)))


def html_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    words: Sequence[bool],
    most: int | None = MOST_ROWS,
) -> str:
    """Return a table with a line of headings.

    Args:
        headings: one per column.
        rows: the cells of each row.
        words: whether a column holds words, which stand left.
        most: rows that are shown; None shows all.
    """
    kinds = [' class="words"' if is_words else "" for is_words in words]
    head = "".join(f"<th{k}>{plain(h)}</th>" for h, k in zip(headings, kinds, strict=True))
    shown = rows if most is None else rows[:most]
    body = "".join(
        f"<tr>{''.join(f'<td{k}>{plain(c)}</td>' for c, k in zip(row, kinds, strict=True))}</tr>\n"
        for row in shown
    )
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
    left = len(rows) - len(shown)
    return table + (f'\n<p class="note">{left:,} more rows are not shown.</p>' if left else "")


def html_pairs(pairs: Mapping[str, object]) -> str:
    """Return names and values, a line each."""
    lines = "".join(
        f'<tr><th class="words" scope="row">{plain(name)}</th>'
        f'<td class="words long">{plain(value)}</td></tr>\n'
        for name, value in pairs.items()
    )
    return f"<table>\n<tbody>\n{lines}</tbody>\n</table>"


def html_view(*parts: str, title: str | None = None, notes: Iterable[str] = ()) -> Markup:
    """Return a whole: a title, tables, and lines below them.

    Args:
        parts: what ``html_table`` and ``html_pairs`` returned.
        title: what it is; None has none.
        notes: plain text, a paragraph each.
    """
    above = [] if title is None else [f'<p class="title">{plain(title)}</p>']
    below = [f'<p class="note">{plain(note)}</p>' for note in notes if note.strip()]
    return Markup("\n".join([f'<div class="probekit">{_STYLE}', *above, *parts, *below, "</div>"]))


CARD = "README.md"

_BEGIN, _END = "<!-- probekit: begin -->", "<!-- probekit: end -->"
_CARD_SECTION = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


def written_card(section: str, before: str | None, metadata: str) -> str:
    """Return a card with a section; what its owner wrote around it stays.

    Args:
        section: its text.
        before: the card that is there; None where there is none.
        metadata: YAML for the head of a new card.
    """
    marked = f"{_BEGIN}\n{section.replace('<!--', '<!- -')}\n{_END}"  # names may hold the marks
    if before is None:
        return f"---\n{metadata.rstrip()}\n---\n\n{marked}\n"
    if _CARD_SECTION.search(before):
        return _CARD_SECTION.sub(lambda _: marked, before, count=1)
    return f"{before.rstrip()}\n\n{marked}\n"


def card_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(card_text, line))} |" for line in lines)


def card_text(text: str) -> str:
    """Return a text in one line that neither breaks a table nor is read as markup."""
    return _MARKUP.sub(r"\\\1", " ".join(_UNPRINTED.sub(" ", text).split()))


def is_place(name: str) -> bool:
    """Say whether the name of a model or text is a path on a disk, which no card tells."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1
