"""Time two or more ways of doing one thing side by side, and state a claim about their ratio."""

import argparse
import gc
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from machine import describe

Side = Callable[[], float]
"""Does the work once and returns the seconds that count."""


@dataclass(frozen=True)
class Ratio:
    """A quotient of two measurements: its median over rounds, and the least and the greatest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return ``6.71 (6.52 to 6.90)``."""
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Timings:
    """Seconds of every side, round by round."""

    seconds: Mapping[str, list[float]]

    def median(self, side: str) -> float:
        """Return the median seconds of a side."""
        return statistics.median(self.seconds[side])

    def ratio(self, slow: str, fast: str, scale: float = 1.0) -> Ratio:
        """Return how many times as long the first side takes, times ``scale``.

        Rounds are compared one by one, so that what slows the machine for a while slows both.
        """
        pairs = zip(self.seconds[slow], self.seconds[fast], strict=True)
        found = [scale * one / two for one, two in pairs]
        return Ratio(statistics.median(found), min(found), max(found))


def alternate(sides: Mapping[str, Side], rounds: int) -> Timings:
    """Run every side once unmeasured, then all of them in turn, ``rounds`` times."""
    for side in sides.values():
        side()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for name in order:
            gc.collect()
            seconds[name].append(sides[name]())
    return Timings(seconds)


def timed(work: Callable[[], object]) -> Side:
    """Return a side that counts all of the work."""

    def side() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return side


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A line of the results.

    Attributes:
        number: of the claim; the same for its parts.
        title: what is compared.
        aim: what was hoped for, in words.
        found: what was measured, in words.
        reached: whether the aim is reached; None if there is none.
        details: what the measurement consists of; where the aim is not reached, what bounds it.
    """

    number: int
    title: str
    aim: str
    found: str
    reached: bool | None
    details: str = ""


def at_least(number: int, title: str, ratio: Ratio, aim: float, details: str) -> Claim:
    """Return the claim that a ratio of times is ``aim`` or more."""
    return Claim(
        number=number,
        title=title,
        aim=f">= {aim:g} x",
        found=f"{ratio} x",
        reached=ratio.median >= aim,
        details=details,
    )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A claim with what it was measured on.

    Attributes:
        machine: its description, see `machine.describe`.
        when: date and commit.
        claim: what was measured.
    """

    machine: str
    when: str
    claim: Claim


def report(claims: list[Claim], args: argparse.Namespace) -> None:
    """Print claims, and append them to ``args.json``, a file of `Measured` as JSON lines."""
    for claim in claims:
        verdict = {True: "reached", False: "NOT REACHED", None: ""}[claim.reached]
        print(f"{claim.number}. {claim.title}: {claim.found} (aim: {claim.aim}) {verdict}")
        if claim.details:
            print(f"   {claim.details}")
    file: Path | None = args.json
    if file is None:
        return
    machine, when = describe(args.device), f"{datetime.now(UTC):%Y-%m-%d}, {_commit()}"
    rows = [asdict(Measured(machine=machine, when=when, claim=claim)) for claim in claims]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(text)


def read(file: Path) -> list[Measured]:
    """Return what `report` wrote; nothing without a file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = map(json.loads, lines)
    return [Measured(**{**row, "claim": Claim(**row["claim"])}) for row in rows]


def _commit() -> str:
    """Return the commit of this file's repository; "+" behind it: with changes, results aside."""
    changed = _git("status", "--porcelain", "--", "..", ":!results.jsonl", ":!RESULTS.md")
    return f"{_git('rev-parse', '--short', 'HEAD') or 'no commit'}{'+' if changed else ''}"


def _git(*words: str) -> str:
    """Return what git says; nothing where there is no git or no repository."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
