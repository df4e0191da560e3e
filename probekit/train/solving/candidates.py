"""What a fit of a mixture begins from, what it finds there, and what may be chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from probekit.probe.fitters.minimise import Points
from probekit.train.solving.solved_fit import Solved


@dataclass(frozen=True, eq=False)
class Start:
    """Where mixture and decoder are fitted together from.

    Attributes:
        points: decoder and mixture, for every part of the rows.
        strength: of L2, as what is there chose it.
    """

    points: Points
    strength: float


@dataclass(frozen=True, eq=False)
class Descended:
    """Mixture and decoder as they were found together.

    Attributes:
        solved: the problems that were solved side by side.
        place: of its own in them.
        score: on what chooses.
        cut: whether the descent was cut short, and goes on if it is chosen.
    """

    solved: Solved
    place: int
    score: float
    cut: bool

    @property
    def end(self) -> Start:
        """Where it ended."""
        return Start(self.solved.of_parts(self.place), self.solved.strengths[self.place])


@dataclass(frozen=True, eq=False)
class Candidate:
    """A solution that may be chosen.

    Attributes:
        name: where it was found: ``average``, ``layer 4``, ``from average``, ``trained``.
        score: on what chooses.
        load: puts it into the member.
        found: what a record says of it.
        descended: what was found; None if a fit that is contained found it.
    """

    name: str
    score: float
    load: Callable[[], None]
    found: Mapping[str, Any]
    descended: Descended | None = None
