"""Shards: several processes that extract one entry together, each some of its units."""

import re
from dataclasses import dataclass

from probekit.errors import OptionError
from probekit.extraction.plan import Plan
from probekit.extraction.units import Unit

_FORM = re.compile(r"(\d+)/(\d+)", re.ASCII)


@dataclass(frozen=True)
class Shard:
    """One of several processes that extract the same entries.

    Attributes:
        index: its number, 1 to ``count``.
        count: how many there are.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``2/4``: the second of four.

        Raises:
            OptionError: it has another form, or there is no such shard.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise OptionError(
                f"--shard {text!r}: expected which of how many, such as 2/4 for the second of four."
            )
        index, count = map(int, found.groups())
        if not 1 <= index <= count:
            raise OptionError(
                f"--shard {text}: shards of {count} are 1/{count} to {count}/{count}"
                + (f", for which an array job is --array=1-{count}." if index == 0 < count else ".")
            )
        return cls(index, count)

    @classmethod
    def asked(cls, text: str | None, workers: int) -> "Shard | None":
        """Read the shard that a user asks for, if any.

        Raises:
            OptionError: as `parse`; or workers are asked for as well.
        """
        if text is not None and workers != 1:
            raise OptionError(
                f"--shard {text} with --workers {workers}: each worker is a shard already. Leave "
                "one of them out."
            )
        return None if text is None else cls.parse(text)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return f"{self.index}/{self.count}"

    @property
    def place(self) -> str:
        """Its place among the others as the name of a file has it."""
        return f"{self.index}-of-{self.count}"

    def units_of(self, plan: Plan, key: str) -> list[Unit]:
        """Return the units that are this shard's, a function of plan, key and number alone.

        The largest goes to the shard that has least to do (Graham 1969: no shard has more than 4/3
        of what the best division gives the fullest one). Entries begin with another shard each, as
        their keys say: the one unit of a small split is not always the first shard's.

        Args:
            plan: layout of the entry.
            key: of the entry, hex digits.
        """
        tokens, mine = [0] * min(self.count, len(plan.units)), []  # beyond, a shard has none
        first = int(key[:8], 16)
        for unit in plan.largest_first:
            least = tokens.index(min(tokens))
            tokens[least] += plan.unit_tokens(unit)
            if (least + first) % self.count == self.index - 1:
                mine.append(unit)
        return mine
