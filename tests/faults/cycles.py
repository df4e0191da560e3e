"""Kills, errors, power cuts, races and flipped bits in every command that writes.

Each cycle starts a command in a copy of one folder and strikes at a random system call that writes
there. Then the same command is run again. It holds where what lies there in the end is what an
undisturbed run leaves: the same bytes and records, nothing missing and nothing left over.

    python -m tests.faults.cycles kill error power race flip --cycles 50
"""

import argparse
import errno
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.faults import shim
from tests.faults.world import OWN, TEXTS, Operation, World, differences, operations, outcome, races

ERRORS = {
    **{"ENOSPC": (errno.ENOSPC, True), "EIO": (errno.EIO, False)},
    **{"EACCES": (errno.EACCES, False), "EFBIG": (errno.EFBIG, True)},
}
"""Errors of calls, and whether all later calls fail as well."""

UNCLEAR = ("Traceback", "may be a fault of probekit")
TOLD = ("damaged", "has changed since it was written", "without a checksum", "left out: ")

READERS: dict[str, Sequence[Sequence[str]]] = {
    "cache/bert/*/*/*": (
        ("cache", "verify", "bert", "texts", *OWN),
        ("train", *TEXTS, "--head", "mean", "--l2", "0.1", "--out", "new.jsonl", *OWN),
    ),
    "cache/bert/*/*/features.zarr/*/*": (
        ("cache", "verify", "bert", "texts", *OWN),
        ("train", *TEXTS, "--head", "mean", "--l2", "0.1", "--out", "new.jsonl", *OWN),
    ),
    "cache/bert/*/labels/*": (
        ("train", *TEXTS, "--head", "mean", "--l2", "0.1", "--out", "new.jsonl", *OWN),
    ),
    "pushed/*/*/*/*": (("cache", "pull", "pushed", "--cache", "there"),),
    "pushed/*/*/*/features.zarr/*/*": (("cache", "pull", "pushed", "--cache", "there"),),
    "runs/base.jsonl": (("table", "runs/base.jsonl", "--style", "jsonl"),),
    "runs/base-predictions/*": (
        ("overthinking", "runs/base.jsonl", "--json"),
        ("report", "runs/base.jsonl", "-o", "page.html", *OWN),
    ),
    "head/*": (("predict", "head", "texts/test.jsonl", "--json"),),
    "run/*": (("predict", "run", "texts/test.jsonl", "--json"),),
    "run/backbone/*": (("predict", "run", "texts/test.jsonl", "--json"),),
}
"""Commands that read a file, by where it lies."""

Found = Iterator[tuple[str, str | None]]
"""Cycles: of what, and what did not hold; None where it did."""


def main() -> None:
    """Run what is asked for, print a line for each command, and fail if something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=list(KINDS))
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="commands or files with one of these, a|b")
    args = parser.parse_args()
    shim.under_shim(["-m", "tests.faults.cycles", *sys.argv[1:]])
    with tempfile.TemporaryDirectory(prefix="probekit-faults-") as folder:
        world = World(Path(folder))
        world.build()
        broken = struck(world, args.kinds, args.cycles, args.seed, args.only)
    sys.exit(min(broken, 1))


def struck(world: World, kinds: Sequence[str], cycles: int, seed: int = 0, only: str = "") -> int:
    """Run cycles of some kinds, print a line for each command; return how many did not hold."""
    broken = 0
    for kind in kinds:
        tried, wrong = Counter[str](), list[str]()
        for name, trouble in KINDS[kind](world, cycles, random.Random(seed), only):
            tried[name] += 1
            if trouble is not None:
                wrong.append(name)
                print(f"{kind}, {name}: {trouble}", flush=True)
        for name, count in tried.items():
            held = count - wrong.count(name)
            print(f"| {kind} | {name} | {count} | {held} |", flush=True)
        broken += len(wrong)
    return broken


def asked(name: str, only: str) -> bool:
    """Say whether a name has one of some parts, divided by bars."""
    return any(part in name for part in only.split("|"))


def kills(world: World, cycles: int, draw: random.Random, only: str) -> Found:
    """Kill each command at random calls, a write after half of its bytes."""
    for operation, expected, calls in _prepared(world, only):
        for _ in range(cycles):
            at = draw.randrange(calls)
            world.begin("before")
            code = world.cli(operation.words, lambda at=at: shim.arm(world.work, at))
            if code != -signal.SIGKILL:  # fewer calls than the first time
                continue
            yield operation.name, _finished(world, operation, expected, f"killed at call {at}")


def power_cuts(world: World, cycles: int, draw: random.Random, only: str) -> Found:
    """Kill each command, and take from the disk what it had not synced: cut off, or zeros."""
    note = str(world.root / "unsynced")
    for operation, expected, calls in _prepared(world, only):
        for _ in range(cycles):
            at, zeros = draw.randrange(calls), draw.random() < 0.5
            world.begin("before")
            arm = lambda at=at: shim.arm(world.work, at, note=note)  # noqa: E731
            if world.cli(operation.words, arm) != -signal.SIGKILL:
                continue
            inodes = {int(line) for line in Path(note).read_text().split()}
            for path in (one for one in world.work.rglob("*") if one.is_file()):
                if path.stat().st_ino in inodes:
                    before = world.root / "before" / path.relative_to(world.work)
                    kept = (
                        before.stat().st_size if path.suffix == ".jsonl" and before.is_file() else 0
                    )
                    _lose(path, draw, zeros, kept)
            said = f"power cut at call {at}, {'zeros' if zeros else 'cut'}"
            yield operation.name, _finished(world, operation, expected, said)


def errors(world: World, cycles: int, draw: random.Random, only: str) -> Found:
    """Let calls of each command fail; it ends with a clear error, or does without."""
    for operation, expected, calls in _prepared(world, only):
        for number in range(cycles):
            name, (code, lasting) = list(ERRORS.items())[number % len(ERRORS)]
            at = draw.randrange(calls)
            world.begin("before")
            arm = lambda at=at, e=code, all_=lasting: shim.arm(  # noqa: E731
                world.work, at, e, lasting=all_
            )
            ended, said = world.cli(operation.words, arm), f"{name} at call {at}"
            if ended not in (0, 1) or any(word in world.output for word in UNCLEAR):
                yield operation.name, f"{said}: exit code {ended}, {world.output[-500:]}"
            else:
                yield operation.name, _finished(world, operation, expected, said)


def races_of(world: World, cycles: int, draw: random.Random, only: str) -> Found:
    """Run commands at once: then all of them are done, and nothing is done twice or torn."""
    for name, commands in races().items():
        if not asked(name, only):
            continue
        world.begin("base")
        for words in commands:
            world.run(words)
        expected = outcome(world.work)
        for _ in range(max(cycles // 4, 1)):
            world.begin("base")
            codes = world.together(commands)
            said = world.output
            if set(codes) - {0, 1} or any(word in said for word in UNCLEAR):
                yield name, f"exit codes {codes}, {said[-500:]}"
                continue
            for words, code in zip(commands, codes, strict=True):
                if code:  # who came too late says so
                    world.run(words)
            other = differences(outcome(world.work), expected)
            yield name, f"{'; '.join(other[:4])}: {said[-500:]}" if other else None


def flips(world: World, cycles: int, draw: random.Random, only: str) -> Found:
    """Flip a bit of each file that is read later: it is said, or without effect."""
    base = world.root / "base"
    for pattern, readers in READERS.items():
        files = [one for one in sorted(base.glob(pattern)) if one.is_file() and one.stat().st_size]
        files = [one for one in files if one.suffix != ".lock"]
        if not asked(pattern, only) or not files:
            continue
        expected = []
        for words in readers:
            world.begin("base")
            world.run(words)
            expected.append((world.output, outcome(world.work)))
        for _ in range(cycles):
            path, reader = draw.choice(files), draw.randrange(len(readers))
            world.begin("base")
            own = world.work / path.relative_to(base)
            data = bytearray(own.read_bytes())
            bit = draw.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
            own.write_bytes(data)
            code = world.cli(readers[reader])
            said = f"bit {bit} of {path.relative_to(base)}, {readers[reader][0]}"
            if any(word in world.output for word in UNCLEAR) or code not in (0, 1):
                yield pattern, f"{said}: exit code {code}, {world.output[-500:]}"
            elif code == 0:
                found = outcome(world.work) | {str(path.relative_to(base)): None}
                before = expected[reader][1] | {str(path.relative_to(base)): None}
                timed = readers[reader][0] == "train"  # whose table has seconds
                same = timed or world.output == expected[reader][0]
                other = differences(found, before)
                told = any(word in world.output for word in TOLD)
                yield (
                    pattern,
                    None
                    if (same and not other) or told
                    else f"{said}: {other}, {world.output[-400:]}",
                )
            else:
                yield pattern, None


def _prepared(world: World, only: str) -> Iterator[tuple[Operation, dict[str, object], int]]:
    """Yield each command, what it leaves, and how many calls it makes; its beginning is kept."""
    for operation in operations():
        if not asked(operation.name, only):
            continue
        world.begin("base")
        for words in operation.before:
            world.run(words)
        world.keep("before")
        count = world.root / "count"
        assert world.cli(operation.words, partial(_count, world.work, count)) == 0, world.output
        yield operation, outcome(world.work), int(count.read_text())


def _count(folder: Path, note: Path) -> None:
    """Count calls below a folder in this child, and note them when it ends."""
    shim.arm(folder, shim.ALWAYS)
    leave = os._exit

    def counted(code: int) -> None:
        note.write_text(str(shim.seen()))
        leave(code)

    os._exit = counted  # type: ignore[assignment]


def _finished(
    world: World, operation: Operation, expected: dict[str, object], said: str
) -> str | None:
    """Run a command again after a fault, and return what is not as it should be."""
    code = world.cli(operation.words)
    other = differences(outcome(world.work), expected)
    if not other and (code == 0 or not operation.repeats):
        return None
    return f"{said}: then exit code {code}, {'; '.join(other[:4])}: {world.output[-500:]}"


def _lose(path: Path, draw: random.Random, zeros: bool, kept: int) -> None:
    """Let a file be as after a power cut: as long as it was, with zeros; or shorter.

    What it held before the command, to which records are appended, stays.
    """
    size = max(path.stat().st_size - kept, 0)
    with path.open("r+b") as file:
        file.seek(kept)
        if zeros:
            file.write(bytes(size))
        else:
            file.truncate(kept + draw.randrange(size + 1))


KINDS: dict[str, Callable[[World, int, random.Random, str], Found]] = {
    "kill": kills, "error": errors, "power": power_cuts, "race": races_of, "flip": flips,
}  # fmt: skip
"""What strikes, by its name on the command line."""


if __name__ == "__main__":
    main()
