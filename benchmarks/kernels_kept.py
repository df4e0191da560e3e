"""Claim 21: heavy heads in bfloat16 with few compiled kernels against one for every shape.

oneDNN compiles a kernel for every shape of a product in bfloat16, and keeps 1,024 of them. probekit
fills the rows of a heavy head's step up to a multiple of 32 (`probekit.train.member.MULTIPLE`) and
keeps 128 kernels (`keep_few_kernels` of `probekit.base.machine`); the other side takes the
rows as they are and keeps 1,024. An epoch of dwatt on MiniLM's states of CoNLL-2003 train, dev
scored once, each side in a process of its own: the seconds of the sweep, and the peak memory of the
process (Linux). Without native bfloat16 the two sides are the same.

    python benchmarks/kernels_kept.py --models MODELS --data DATA
"""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import Claim, alternate, report
from subjects import MINILM, extract_conll, parser, work_folder
from training_process import train_apart

from probekit.base.machine import KERNEL_SETTINGS

SIDES: Mapping[str, Mapping[str, Any]] = {
    "every shape": {"multiple": 1, "environment": dict.fromkeys(KERNEL_SETTINGS, "1024")},
    "few": {},
}
OPTIONS = {"model": MINILM, "task": "conll", "head": "dwatt", "epochs": 1, "evals": 1}
AIM = 1.5


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        extract_conll(args, folder, splits=["train", "dev"])
        report([measure(folder, args.rounds, args.device)], args)


def measure(cache: Path, rounds: int, device: str) -> Claim:
    """Return the claim."""
    peaks: dict[str, list[int]] = {name: [] for name in SIDES}

    def run(name: str) -> float:
        seconds, peak = train_apart(cache, OPTIONS, device=device, **SIDES[name])
        peaks[name].append(peak)
        return seconds

    timings = alternate({name: lambda name=name: run(name) for name in SIDES}, rounds)
    ratio = timings.ratio("every shape", "few")
    memory = {name: statistics.median(found) / 1e9 for name, found in peaks.items()}
    return Claim(
        number=21,
        title=f"training dwatt with few compiled kernels against one per shape, {MINILM}",
        aim=f">= {AIM:g} x the speed, less memory",
        found=f"{ratio} x; {memory['few']:.2f} GB against {memory['every shape']:.2f} GB",
        reached=ratio.median >= AIM and memory["few"] < memory["every shape"],
        details=f"{timings.median('few'):.1f} s against {timings.median('every shape'):.1f} s",
    )


if __name__ == "__main__":
    main()
