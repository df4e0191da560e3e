"""Cards of the Hub: a ``README.md`` of which one section is probekit's, and the rest its owner's.

Only what stands between two marks, and ``probekit`` in the head, is written again. Names that are
not probekit's own are escaped, so that none breaks a table or is read as markup.
"""

import re
from collections.abc import Sequence

CARD = "README.md"

_BEGIN, _END = "<!-- probekit: begin -->", "<!-- probekit: end -->"
_MARKED = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
_HEAD = re.compile(r"(\ufeff?---[ \t]*\r?\n)(.*?)(?=^---[ \t]*\r?$)", re.DOTALL | re.MULTILINE)
_FACTS = re.compile(r"^probekit:.*\n(?:(?:[ -].*)?\n)*", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
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
    if _MARKED.search(before):
        return _MARKED.sub(lambda _: marked, before, count=1)
    return f"{before.rstrip()}\n\n{marked}\n"


def with_facts(card: str, facts: str) -> str:
    """Return a card with facts for programs in its head; what its owner wrote there stays.

    Args:
        card: the card.
        facts: YAML of one name, ``probekit``, which takes the place of an earlier one.
    """
    head = _HEAD.match(card)
    if head is None:
        return f"---\n{facts}---\n\n{card}"
    return f"{head[1]}{_FACTS.sub('', head[2])}{facts}{card[head.end() :]}"


def card_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(card_text, line))} |" for line in lines)


def card_text(text: str) -> str:
    """Return a text in one line that neither breaks a table nor is read as markup."""
    return _MARKUP.sub(r"\\\1", " ".join(_CONTROL.sub(" ", text).split()))


def is_place(name: str) -> bool:
    """Say whether the name of a model or text is a path on a disk, which no card tells."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1
