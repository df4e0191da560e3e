"""A folder with a model, texts, a cache and records, and the commands that write below it."""

import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

WORDS = [
    "a",
    "good",
    "bad",
    "nice",
    "awful",
    "day",
    "night",
    "sun",
    "moon",
    "river",
    "tree",
    "house",
    "red",
    "green",
    "blue",
]
OWN = ("--cache", "cache")
KIND = ("--kind", "sentence")
TEXTS = ("bert", "texts", "--label", "label")
STEPS = ("--epochs", "2", "--lr", "0.01", "--protocol", "steps.toml")
LORA = ("train", *TEXTS, "--method", "lora", "--head", "last", *STEPS, *OWN)
VOLATILE = {"created", "seal", "checksum", "train_seconds", "environment", "predictions_digest"}
"""What two runs of one command never have in common."""

SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A command that writes.

    Attributes:
        name: of it.
        words: the command line, which is also what finishes it after a fault.
        before: commands that are run before it, once.
        repeats: whether the command succeeds where all is done already.
    """

    name: str
    words: Sequence[str]
    before: Sequence[Sequence[str]] = ()
    repeats: bool = True


def operations() -> list[Operation]:
    """Return the commands, over what `World.build` makes."""
    words = ("bert", "words.conll", "--kind", "tagging")
    fine = ("train", *TEXTS, "--method", "bitfit", "--head", "last", *STEPS, *OWN)
    entry = "cache/bert/texts-*/train-*"
    shards = [("extract", *words, "--cache", "one", "--shard", f"{n}/2") for n in (1, 2)]
    push = ("cache", "push", "-y", "bert", "texts")
    return [
        Operation(name="extract", words=("extract", *words, *OWN)),
        Operation(name="extract to HDF5", words=("extract", *words, *OWN, "--format", "hdf5")),
        Operation(name="extract int8", words=("extract", *words, *OWN, "--dtype", "int8")),
        Operation(name="extract again", words=("extract", *TEXTS, *KIND, *OWN, "--overwrite")),
        Operation(name="extract a shard", words=shards[1], before=[shards[0]]),
        Operation(
            name="train", words=("train", *TEXTS, "--head", "last,mean", "--predictions", *OWN)
        ),
        Operation(
            name="train and save",
            words=("train", *TEXTS, "--head", "concat", *STEPS, "--save", "saved", *OWN),
        ),
        Operation(
            name="sweep",
            words=("sweep", *TEXTS, "--head", "last,mean", "--shots", "4", "--seeds", "2", *OWN),
        ),
        Operation(name="depth", words=("depth", *TEXTS, "--predictions", "--save", "ds", *OWN)),
        Operation(name="train --method", words=(*fine, "--save", "tuned")),
        Operation(name="merge", words=("merge", "run", "merged"), repeats=False),
        Operation(name="card", words=("card", "run")),
        Operation(name="export", words=("export", "head", "-o", "head.npz")),
        Operation(name="report", words=("report", "runs/base.jsonl", "-o", "page.html", *OWN)),
        Operation(name="plot", words=("plot", "depth", "runs/base.jsonl", "-o", "depth.pdf")),
        Operation(name="cache copy", words=("cache", "copy", "bert", "texts", "there", *OWN)),
        Operation(name="cache push", words=(*push, "there", *OWN)),
        Operation(
            name="cache push --no-text",
            words=(*push, "pushed", "--no-text", *OWN),
            before=[("extract", *TEXTS, *KIND, *OWN, "--overwrite")],
        ),
        Operation(name="cache pull", words=("cache", "pull", "pushed", "--cache", "there")),
        Operation(
            name="cache pull --data",
            words=("cache", "pull", "bare", "--data", "texts", "--cache", "there"),
            before=[(*push, "bare", "--no-text", *OWN)],
        ),
        Operation(
            name="cache convert",
            words=("cache", "convert", "bert", "texts", "--format", "hdf5", "--to", "there", *OWN),
        ),
        Operation(
            name="cache merge",
            words=("cache", "merge", "two", "--cache", "one"),
            before=[shards[0], (*shards[1][:-3], "two", *shards[1][-2:])],
        ),
        Operation(name="cache rm", words=("cache", "rm", entry, "-y", *OWN), repeats=False),
        Operation(
            name="cache rm --layers",
            words=("cache", "rm", entry, "--layers", "1", "-y", *OWN),
            repeats=False,
        ),
        Operation(
            name="cache rm --array",
            words=("cache", "rm", entry, "--array", "cls", "-y", *OWN),
            repeats=False,
        ),
    ]


def races() -> dict[str, Sequence[Sequence[str]]]:
    """Return commands that are run at once, by name."""
    by_name = {one.name: one.words for one in operations()}
    other = ("train", *TEXTS, "--head", "p32", *OWN)
    names = (
        "extract",
        "extract to HDF5",
        "train",
        "sweep",
        "depth",
        "train --method",
        "cache copy",
        "cache push",
        "cache pull",
    )
    return {
        **{f"{name}, twice": [by_name[name]] * 2 for name in names},
        "train, of other heads": [by_name["train"], other],
        "three sweeps": [by_name["sweep"]] * 3,
        "extract and train": [by_name["extract again"], by_name["train"]],
        "two shards": [
            ("extract", "bert", "words.conll", "--kind", "tagging", "--shard", f"{n}/2", *OWN)
            for n in (1, 2)
        ],
        "report and plot, twice": [by_name["report"], by_name["plot"]] * 2,
        "push and pull": [(*by_name["cache push"][:-3], "pushed", *OWN), by_name["cache pull"]],
    }


@dataclass
class World:
    """Where commands run, each in a child of this warm process.

    Attributes:
        root: holds the folders ``base`` (what all begin with) and ``work``.
    """

    root: Path
    output: str = field(default="", init=False)

    @property
    def work(self) -> Path:
        """The folder in which commands run: always the same, as records name it."""
        return self.root / "work"

    def build(self) -> None:
        """Warm this process up, and make what all commands begin with."""
        warm()
        self.work.mkdir(parents=True)
        for module in ("tests.tiny", "tests.faults.world"):
            importlib.import_module(module)
        self.call(lambda: write_texts(self.work))
        for words in (
            ("extract", *TEXTS, *KIND, *OWN),
            ("depth", *TEXTS, "--out", "runs/base.jsonl", "--predictions", *OWN),
            ("cache", "push", "-y", "bert", "texts", "pushed", *OWN),
            ("train", *TEXTS, "--head", "mean", "--save", "head", *OWN),
            (
                "train",
                *TEXTS,
                "--method",
                "lora",
                "--head",
                "last",
                *STEPS,
                "--save",
                "run",
                *OWN,
            ),
        ):
            self.run(words)
        shutil.copytree(self.work, self.root / "base")

    def begin(self, folder: str) -> None:
        """Put a copy of a folder where commands run."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.root / folder, self.work, symlinks=True)

    def keep(self, folder: str) -> None:
        """Keep what is there now under a name."""
        shutil.rmtree(self.root / folder, ignore_errors=True)
        shutil.copytree(self.work, self.root / folder, symlinks=True)

    def run(self, words: Sequence[str]) -> None:
        """Run a command, which must succeed."""
        code = self.cli(words)
        assert code == 0, f"{' '.join(words)} ended with {code}:\n{self.output[-3000:]}"

    def cli(self, words: Sequence[str], prepare: Callable[[], None] = lambda: None) -> int:
        """Run a command in a child, and return its exit code; negative: the signal it died of."""
        from probekit.cli.app import app

        typed = [one for word in words for one in self._spelled(word)]

        def command() -> None:
            prepare()
            app(typed)

        return self.call(command)

    def _spelled(self, word: str) -> list[str]:
        """Return what a shell makes of a pattern in this folder, as it was before any fault."""
        if "*" not in word:
            return [word]
        found = sorted(one for one in (self.root / "base").glob(word) if one.suffix != ".lock")
        return [str(one.relative_to(self.root / "base")) for one in found]

    def together(self, commands: Sequence[Sequence[str]]) -> list[int]:
        """Run commands at once, each in a child, and return their exit codes."""
        from probekit.cli.app import app

        log = self.root / "output"
        log.write_text("")
        typed = [[one for word in words for one in self._spelled(word)] for words in commands]
        children = [self._fork(partial(app, words), log) for words in typed]
        codes = [self._wait(child) for child in children]
        self.output = log.read_text("utf-8", "replace")
        return codes

    def call(self, work: Callable[[], None]) -> int:
        """Do some work in a child, and return its exit code."""
        log = self.root / "output"
        log.write_text("")
        code = self._wait(self._fork(work, log))
        self.output = log.read_text("utf-8", "replace")
        return code

    def _fork(self, work: Callable[[], Any], log: Path) -> int:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _become(work, self.work, log)
        return child

    def _wait(self, child: int) -> int:
        """Return the exit code of a child; that of a signal where it does not end."""
        end = time.monotonic() + SECONDS
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return -signal.SIGALRM
            time.sleep(0.002)


def _become(work: Callable[[], Any], folder: Path, log: Path) -> None:
    """Do the work in a child whose output goes to a file, and end."""
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.chdir(folder)
    code = 0
    try:
        work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def warm() -> None:
    """Import what commands import, and cut small units, so that a child starts at once."""
    import torch

    torch.set_num_threads(1)
    for name in ("probekit", "transformers.models.bert", "peft", "sklearn.linear_model"):
        importlib.import_module(name)
    package = importlib.import_module("probekit")
    for found in pkgutil.walk_packages(package.__path__, "probekit."):
        if not any(part in found.name for part in ("ray_jobs", "__main__", "objects")):
            importlib.import_module(found.name)
    plan = importlib.import_module("probekit.extraction.plan")
    plan.UNIT_BYTES, plan.chunk_rows_for = 8_000, lambda *_: 16


def write_texts(folder: Path) -> None:
    """Write a model and texts."""
    from tests.tiny import build

    build("bert", folder / "bert", layers=2, dim=16)
    (folder / "steps.toml").write_text("batch_size = 8\n")
    draw = random.Random(0)
    (folder / "texts").mkdir()
    for split, count in (("train", 48), ("dev", 16), ("test", 16)):
        lines, blocks = [], []
        for number in range(count):
            label = number % 2
            text = [draw.choice(WORDS) for _ in range(5)] + [("good", "awful")[label]]
            lines.append(json.dumps({"text": " ".join(text), "label": f"c{label}"}))
            blocks.append("\n".join(f"{w} {'B-X' if w in ('sun', 'moon') else 'O'}" for w in text))
        (folder / "texts" / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        if split == "train":
            (folder / "words.conll").write_text("\n\n".join(blocks) + "\n")


def outcome(folder: Path) -> dict[str, Any]:
    """Return what lies in a folder, without what two runs never have in common, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.endswith(".lock") and not name.startswith("bert/"):
            found[name] = _content(path)
    return found


def _content(path: Path) -> Any:
    """Return what a file says; its bytes, where it is torn."""
    try:
        if path.suffix == ".jsonl" and path.parent.name != "texts":
            records = [_lasting(json.loads(line)) for line in path.read_text().splitlines()]
            return sorted(records, key=lambda one: str(one.get("key")))
        if path.suffix == ".json":
            return _lasting(json.loads(path.read_text()))
        if path.suffix == ".html":
            return re.sub(rb'<p id="made">[^<]*', b"", path.read_bytes())
        if path.suffix == ".parquet":
            return pq.read_table(path).to_pydict()
    except (ValueError, OSError):
        pass
    return path.read_bytes()


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lasting(one) for name, one in value.items() if name not in VOLATILE}
    return [_lasting(one) for one in value] if isinstance(value, list) else value


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the paths that only one of two folders has, or whose content differs."""
    names = sorted(found.keys() | expected.keys())
    said = {(False, True): "missing", (True, False): "left over", (True, True): "another"}
    return [
        f"{name}: {said[name in found, name in expected]}"
        for name in names
        if name not in found or name not in expected or found[name] != expected[name]
    ]
