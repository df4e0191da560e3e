"""Which tokens of a text are kept: those of a role, the last ones, between marks, or matched."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool

from probekit.data.chat import Turn
from probekit.data.encoded import EncodedSplit
from probekit.errors import OptionError

ROLES = ("assistant", "user", "system", "tool")
_FORMS = f"{', '.join(ROLES)}, last:N, between:A:B or regex:R"


@dataclass(frozen=True)
class TokenChoice:
    """A rule, as ``--only`` gives it.

    Attributes:
        role: whose messages of a conversation are kept; None of the other rules.
        last: how many of a text's last tokens are kept; None of the other rules.
        pattern: finds the stretches of a text whose tokens are kept: all of a match, or of it the
            group ``kept``.
    """

    role: str | None = None
    last: int | None = None
    pattern: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--only") -> Self:
        """Read ``assistant``, ``last:5``, ``between:<think>:</think>`` or ``regex:[0-9]+``.

        Args:
            text: the rule.
            option: that it is given by, for messages.

        Raises:
            OptionError: it has another form, or matches everywhere and nothing.
        """
        form, _, rest = text.partition(":")
        if text in ROLES:
            return cls(role=text)
        if form == "last" and rest.isdecimal() and int(rest):
            return cls(last=int(rest))
        if form == "between" and all(marks := rest.partition(":")[::2]):
            before, after = map(re.escape, marks)
            return cls(pattern=re.compile(f"{before}(?P<kept>.*?){after}", re.DOTALL))
        if form == "regex" and rest:
            try:
                pattern = re.compile(rest)
            except re.error as error:
                raise OptionError(
                    f"{option} {text}: not a regular expression ({error}). Mend it."
                ) from None
            if pattern.fullmatch("") is None:
                return cls(pattern=pattern)
            raise OptionError(
                f"{option} {text}: it matches empty text, too. Ask for a character or more."
            )
        raise OptionError(f"{option} {text}: expected {_FORMS}.")

    def stretches(self, text: str, turns: Sequence[Turn] = ()) -> Iterator[tuple[int, int]]:
        """Yield where a stretch of a text begins, in characters, and where it ends (excluded).

        Args:
            text: the text.
            turns: of a conversation, where its messages stand.
        """
        yield from ((start, stop) for role, start, stop in turns if role == self.role)
        if self.pattern is not None:
            group = "kept" if "kept" in self.pattern.groupindex else 0
            spans = (match.span(group) for match in self.pattern.finditer(text))
            yield from (span for span in spans if span[0] >= 0)  # else the group took no part

    def kept(self, split: EncodedSplit) -> Bool[np.ndarray, " tokens"]:
        """Return which subwords of the windows of a split are kept, each once."""
        once = split.once
        if self.last is None:
            assert split.kept is not None, "stretches are looked up as texts are tokenised"
            return split.kept & once
        # of a text's five subwords, 0 1 2 3 4 before each and 5 in all, the last two are 3 and 4
        before = np.cumsum(once) - once
        bounds = split.example_tokens
        counts = np.add.reduceat(np.append(once, False), bounds[:-1]) * (np.diff(bounds) > 0)
        first = np.concatenate([before, [once.sum()]])[bounds[:-1]] + counts - self.last
        return once & (before >= np.repeat(first, np.diff(bounds)))


def inside(offsets: list[tuple[int, int]], stretches: list[tuple[int, int]]) -> list[bool]:
    """Say of each subword, by its characters, whether a part of it lies in a stretch.

    Args:
        offsets: first character of each subword, and one past its last.
        stretches: in ascending order, apart from one another.
    """
    if not stretches:
        return [False] * len(offsets)
    starts, stops = np.array(stretches).T
    begins, ends = np.array(offsets).reshape(-1, 2).T
    at = np.searchsorted(stops, begins, side="right")  # the first that ends behind its beginning
    next_start = np.append(starts, np.iinfo(np.int64).max)[at]
    return (next_start < ends).tolist()
