"""Claims 33 and 34: `extract --shard` with two processes, and the simulation of `cluster.py`.

A random model of 6 blocks, 384 wide, reads sentences of random words, in units of 4 MiB, so that a
run of seconds has many. Every process is a command of its own with one thread on one of two cores,
its start included. Claim 33: two shards of one entry against two processes that each extract half
of the text, which share nothing. Claim 34: a process alone with a sixteenth and a quarter of the
text, and two of these at once, say how long one takes to start, how fast it is, and how much slower
beside another; from these the simulation foretells what takes the whole text: one process, two
shards, two workers, and two shards of which one is killed half way and started again.

    python benchmarks/shards.py
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from cluster import Cluster, Failure, Work, simulate
from measure import Claim, Timings, alternate, report, timed
from subjects import parser, work_folder

from probekit.extraction.forecasting import measure_disk

SHARDS, SIMULATED = 33, 34
SHARDS_AIM, SIMULATED_AIM = 0.95, 0.30
WORDS, LENGTH = 1000, 24
SHAPE = {
    "num_hidden_layers": 6,
    "hidden_size": 384,
    "num_attention_heads": 6,
    "intermediate_size": 1536,
}
UNIT_BYTES = 4 * 2**20
MAIN = f"""
from probekit.extraction import plan
plan.UNIT_BYTES = {UNIT_BYTES}
plan.chunk_rows_for = lambda dim, dtype, rows: 128
from probekit.cli import main
main()
"""
QUARTER, SIXTEENTH = 1 / 4, 1 / 16


@dataclass(frozen=True)
class Text:
    """A data set of one split.

    Attributes:
        path: its folder.
        sentences: how many it has, of `LENGTH` words.
    """

    path: Path
    sentences: int

    @property
    def tokens(self) -> int:
        """Subwords that the model reads."""
        return self.sentences * (LENGTH + 2)


class Runs:
    """Starts commands that each extract a text into a cache that is not there yet."""

    def __init__(self, folder: Path) -> None:
        """Save the model, and keep where texts and caches lie."""
        self._folder = folder
        self._numbers = count()
        self._model = save_model(folder / "model")

    def text(self, sentences: int, seed: int = 0) -> Text:
        """Write random sentences."""
        dice, folder = random.Random(seed), self._folder / f"text{next(self._numbers)}"
        folder.mkdir()
        sentence = "word{}\tO\n" * LENGTH + "\n"
        lines = [sentence.format(*dice.choices(range(WORDS), k=LENGTH)) for _ in range(sentences)]
        (folder / "train.conll").write_text("".join(lines), "utf-8")
        return Text(folder, sentences)

    def cache(self) -> Path:
        """Return a folder that is not there, and remove the one before."""
        shutil.rmtree(self._folder / "cache", ignore_errors=True)
        return self._folder / "cache"

    def start(self, text: Text, cache: Path, *words: str) -> subprocess.Popen[bytes]:
        """Begin to extract a text."""
        command = ["-c", MAIN, "-q", "extract", str(self._model), str(text.path), *words]
        command += ["--device", "cpu", "--dtype", "float16", "--cache", str(cache)]
        alone = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        return subprocess.Popen([sys.executable, *command], env=alone, stdout=subprocess.DEVNULL)

    def alone(self, text: Text, *words: str) -> None:
        """Extract a text in one process."""
        finish(self.start(text, self.cache(), *words))

    def apart(self, *texts: Text) -> None:
        """Extract texts at once, each in a process and a cache of its own."""
        cache = self.cache()
        finish(*(self.start(text, cache / str(n)) for n, text in enumerate(texts)))

    def shards(self, text: Text) -> None:
        """Extract a text in two shards."""
        cache = self.cache()
        finish(*(self.start(text, cache, "--shard", f"{n}/2") for n in (1, 2)))

    def killed(self, text: Text, seconds: float) -> None:
        """Extract a text in two shards, of which the first is killed and started again."""
        cache = self.cache()
        victim, other = (self.start(text, cache, "--shard", f"{n}/2") for n in (1, 2))
        time.sleep(seconds)
        victim.kill()
        victim.wait()
        finish(self.start(text, cache, "--shard", "1/2"), other)


def finish(*processes: subprocess.Popen[bytes]) -> None:
    """Wait for processes that must succeed."""
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(f"extraction failed: exit codes {codes}")


def save_model(folder: Path) -> Path:
    """Save a random model that has a token for every word."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    names = [*special, *(f"word{number}" for number in range(WORDS))]
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(names), **SHAPE)).save_pretrained(folder)
    BertTokenizerFast(vocab={name: n for n, name in enumerate(names)}).save_pretrained(folder)
    return folder


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, default=6000)
    args = options.parse_args()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        with work_folder(args) as folder:
            claims = measure(args, Runs(folder), measure_disk(folder, resident=False).write)
    finally:
        os.sched_setaffinity(0, cores)
    report(claims, args)


def measure(args: argparse.Namespace, runs: Runs, disk: float) -> list[Claim]:
    """Return the claims.

    Args:
        args: rounds and sentences.
        runs: of commands.
        disk: bytes per second.
    """
    whole = runs.text(args.sentences)
    halves = [runs.text(args.sentences // 2, seed) for seed in (1, 2)]
    quarters = [runs.text(round(args.sentences * QUARTER), seed) for seed in (3, 4)]
    little = runs.text(round(args.sentences * SIXTEENTH), 5)
    short = {
        "a sixteenth": timed(lambda: runs.alone(little)),
        "a quarter": timed(lambda: runs.alone(quarters[0])),
        "two quarters": timed(lambda: runs.apart(*quarters)),
    }
    parts = calibrate(alternate(short, args.rounds), little, quarters[0], disk)
    kill = parts.together.start + whole.tokens / 4 / parts.together.speed
    long = {
        "one": timed(lambda: runs.alone(whole)),
        "halves": timed(lambda: runs.apart(*halves)),
        "shards": timed(lambda: runs.shards(whole)),
        "workers": timed(lambda: runs.alone(whole, "--workers", "2")),
        "killed": timed(lambda: runs.killed(whole, kill)),
    }
    timings = alternate(long, args.rounds)
    foretold = foretell(parts, whole, kill)
    return [sharing(timings), simulation(timings, foretold)]


@dataclass(frozen=True)
class Parts:
    """What short runs say.

    Attributes:
        alone: a process with both cores to itself.
        together: two processes at once.
    """

    alone: Cluster
    together: Cluster


def calibrate(timings: Timings, little: Text, quarter: Text, disk: float) -> Parts:
    """Return start and speed of a process, alone and beside another."""
    one = timings.median("a quarter")
    speed = (quarter.tokens - little.tokens) / (one - timings.median("a sixteenth"))
    start = max(one - quarter.tokens / speed, 0.0)
    slower = timings.ratio("two quarters", "a quarter").median
    return Parts(
        Cluster(workers=1, speed=speed, bandwidth=disk, start=start),
        Cluster(workers=2, speed=speed / slower, bandwidth=disk, start=start * slower),
    )


def foretell(parts: Parts, whole: Text, kill: float) -> Mapping[str, float]:
    """Return the seconds of runs over the whole text, simulated.

    Args:
        parts: what short runs say.
        whole: the text.
        kill: when a shard is killed.
    """
    token_bytes = 2 * SHAPE["hidden_size"] * (SHAPE["num_hidden_layers"] + 2)  # one for subwords
    work = Work(tokens=whole.tokens, unit_tokens=UNIT_BYTES / token_bytes, token_bytes=token_bytes)

    def seconds(cluster: Cluster, failures: Sequence[Failure] = ()) -> float:
        return simulate(cluster, work, failures).seconds

    return {
        "one": seconds(parts.alone),
        "shards": seconds(parts.together),
        # the process that starts the workers starts first
        "workers": parts.alone.start + seconds(parts.together),
        "killed": seconds(parts.together, [(kill, 0)]),
    }


def sharing(timings: Timings) -> Claim:
    """Return the claim about two shards."""
    ratio = timings.ratio("halves", "shards")
    gain = timings.ratio("one", "shards")
    return Claim(
        number=SHARDS,
        title="`extract --shard` in two processes against two that share nothing, one thread each",
        aim=f">= {SHARDS_AIM}",
        found=str(ratio),
        reached=bool(ratio.median >= SHARDS_AIM),
        details=f"{timings.median('shards'):.1f} s against {timings.median('halves'):.1f} s; one "
        f"process {timings.median('one'):.1f} s, {gain} x as long; starts included",
    )


def simulation(timings: Timings, foretold: Mapping[str, float]) -> Claim:
    """Return the claim about the simulation."""
    off = {name: seconds / timings.median(name) - 1 for name, seconds in foretold.items()}
    farthest = max(off, key=lambda name: abs(off[name]))
    told = ", ".join(
        f"{name} {seconds:.1f} s for {timings.median(name):.1f} s"
        for name, seconds in foretold.items()
    )
    return Claim(
        number=SIMULATED,
        title="simulated seconds of local extractions against their medians, the farthest",
        aim=f"within {SIMULATED_AIM:.0%}",
        found=f"{off[farthest]:+.0%} ({farthest})",
        reached=bool(abs(off[farthest]) <= SIMULATED_AIM),
        details=f"simulated for measured: {told}",
    )


if __name__ == "__main__":
    main()
