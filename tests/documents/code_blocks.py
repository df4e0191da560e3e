"""The code of a page: its fenced blocks in order, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("sh", "python")
"""Languages of blocks that are run; others (``text``, ``toml``) show something."""

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n\n?)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?(.*?)\n.*?\n\1$", re.MULTILINE | re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\((.*?)\)")
_PUNCTUATION = set("|&;<>()")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: as the fence says.
        text: between the fences.
        line: number of its first line in the page.
        reason: why it is not run; None of a block that is.
    """

    language: str
    text: str
    line: int
    reason: str | None = None

    @property
    def runs(self) -> bool:
        """Whether the block is to be run."""
        return self.language in RUN and self.reason is None


def pages() -> list[Path]:
    """Return every page with code that people run, README first."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [*found, *(ROOT / name / "README.md" for name in ("analyses", "cache"))]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [
        Block(found["language"], found["text"], text[: found.start("text")].count("\n") + 1,
              found["reason"])
        for found in _BLOCK.finditer(text)
    ]  # fmt: skip


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each call of probekit in a block of shell."""
    plain = _HERE_DOCUMENT.sub(r"\2", text).replace("\\\n", " ")
    for line in plain.splitlines():
        # A comment begins after a blank, as in a shell: FILE#head=last is one word.
        yield from _calls(re.sub(r"(^|\s)#.*", "", line))


def _calls(line: str) -> Iterator[list[str]]:
    for inner in _SUBSTITUTION.findall(line):
        yield from _calls(inner)
    line = _SUBSTITUTION.sub("WORD", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    call: list[str] | None = None
    for word in [*lexer, ";"]:
        if word and set(word) <= _PUNCTUATION:  # '' is a word
            if call:
                yield call
            call = None
        elif word.startswith("probekit "):  # a command in quotes, as of a scheduler
            yield from _calls(word)
        elif call is not None:
            call.append(word)
        elif word == "probekit":
            call = []


def names_of(page: Path) -> str:
    """Return a page's name for people."""
    return page.relative_to(ROOT).as_posix()
