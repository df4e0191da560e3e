"""Claim 21: training with few compiled kernels in memory against 1,024 of them.

oneDNN compiles a kernel for every shape of a product in bfloat16, and 1,024 of them are kept unless
it is told otherwise (`probekit.heap.keep_few_kernels`). An epoch of dwatt on MiniLM's states of
CoNLL-2003 train, dev scored once, each side in a process of its own: the seconds of the run, and
the peak memory of the process (Linux). Without native bfloat16 the two sides are the same.

    python benchmarks/kernels_kept.py --models MODELS --data DATA
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from extraction_memory import resident
from measure import Claim, alternate, report
from subjects import MINILM, data_path, model_path, parser, work_folder

from probekit import Location, TrainSpec, extract, fit

VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
SETTINGS = {"default": dict.fromkeys(VARIABLES, "1024"), "few": dict.fromkeys(VARIABLES, "64")}
AIM = 1.0


def main() -> None:
    """Measure and report, or be the process that trains."""
    options = parser(__doc__)
    options.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    args = options.parse_args()
    with work_folder(args) as folder:
        if args.train:
            print(*train(folder))
            return
        extract(
            model_path(args, MINILM),
            "conll",
            data=data_path(args, "conll2003"),
            splits=["train", "dev"],
            cache=folder,
        )
        report([measure(args, folder)], args)


def measure(args: argparse.Namespace, folder: Path) -> Claim:
    """Return the claim about processes that keep few kernels, or as many as oneDNN would."""
    peaks: dict[str, list[float]] = {name: [] for name in SETTINGS}

    def run(name: str) -> float:
        command = [sys.executable, __file__, "--train", "--work", str(folder)]
        environment = {**os.environ, **SETTINGS[name]}
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
        seconds, peak = map(float, done.stdout.split())
        peaks[name].append(peak)
        return seconds

    timings = alternate({name: lambda name=name: run(name) for name in SETTINGS}, args.rounds)
    ratio = timings.ratio("default", "few")
    memory = {name: statistics.median(found) / 1e9 for name, found in peaks.items()}
    return Claim(
        number=21,
        title=f"training dwatt with few compiled kernels in memory against 1,024, {MINILM}",
        aim=f">= {AIM:g} x the speed, less memory",
        found=f"{ratio} x; {memory['few']:.2f} GB against {memory['default']:.2f} GB",
        reached=ratio.median >= AIM and memory["few"] < memory["default"],
        details=f"{timings.median('few'):.1f} s against {timings.median('default'):.1f} s",
    )


def train(cache: Path) -> tuple[float, int]:
    """Train once; return the seconds of the run and the peak memory of this process."""
    spec = TrainSpec(model=MINILM, task="conll", head="dwatt", epochs=1, evals=1)
    result = fit(spec, location=Location(cache=cache), device="cpu")
    return result.train_seconds, resident("VmHWM")


if __name__ == "__main__":
    main()
