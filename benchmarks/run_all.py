"""Run every benchmark and write RESULTS.md: what was claimed, what was measured, on what machine.

    make bench MODELS=models DATA=data

What is measured is kept in ``--json``, of every machine that measured it. A program whose first
claim is there already, measured on a machine with this description, is not run again: delete its
lines to measure it anew.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from machine import describe
from measure import Measured, read
from subjects import LARGE

HERE = Path(__file__).parent

Programs = tuple[tuple[tuple[int, ...], str, tuple[str, ...]], ...]

PROGRAMS: Programs = (
    ((1, 3, 4), "extraction.py", ("mpnet-base",)),
    ((2, 3), "extraction.py", ("minilm-l6",)),
    ((5,), "neurox_extraction.py", ()),
    ((6,), "extraction_memory.py", ()),
    ((7,), "epochs.py", ()),
    ((8,), "head_step.py", ()),
    ((9,), "depth_sklearn.py", ()),
    ((10, 11), "sweeping.py", ()),
    ((12,), "reading.py", ()),
    ((13,), "larger_than_memory.py", ("--of", "words")),
    ((14,), "int8.py", ()),
    ((15,), "startup.py", ()),
    ((16,), "batching.py", ("minilm-l6",)),
    ((17,), "row_sum.py", ()),
    ((18,), "scoring_blocks.py", ()),
    ((19,), "int8_rows.py", ()),
    ((20,), "dropout_masks.py", ()),
    ((21,), "kernels_kept.py", ()),
    ((22,), "packing.py", ()),
    ((23,), "chunk_writing.py", ()),
    ((24,), "mixture_orders.py", ()),
    ((27, 28), "cache_copying.py", ()),
    ((31,), "ray_engine.py", ()),
    ((33, 34), "shards.py", ()),
    ((37, 38), "finetuning.py", ("--rounds", "3")),
    ((39, 40), "large_text.py", ()),
    ((41,), "larger_than_memory.py", ("--of", "tokens")),
    ((46,), "solver_rivals.py", ()),
    ((47,), "reading_rivals.py", ()),
    ((48,), "choosing_strengths.py", ("--rounds", "3")),
)
"""The claims that each program measures, its own first, the program, and its arguments."""

ON_ACCELERATORS: Programs = (
    ((35, 36, 42, 43, 44, 45), "gpu.py", ()),
    ((1, 3), "extraction.py", (LARGE,)),
    ((7,), "epochs.py", ("--model", LARGE)),
    ((10, 11), "sweeping.py", ("--model", LARGE)),
)
"""The same with ``--device cuda``."""

NO_ACCELERATOR = """## On a GPU

No GPU was at hand yet, so nothing of this was measured on one.
`python benchmarks/gpu.py --device cuda --json benchmarks/results.jsonl` measures on one, in under
seven minutes: extraction with the shapes of roberta-large and of an 8B decoder (random weights) to
the disk, against the forward pass alone, hooks and the loop by hand; a solved depth curve against
scikit-learn; an epoch of every head; a step of LoRA against that of a Trainer. The figures will
stand beside the published ones: a 70B model at 33,000 tokens/s and 3.3 GB/s into S3 on eight H100
(activault), and an overhead of 0.4 to 6.8 % (DMI-Lib).
"""
"""Stands in the results until a GPU has measured something."""

VERDICTS = {True: "reached", False: "**not reached**", None: ""}


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--json", type=Path, default=HERE / "results.jsonl")
    args = parser.parse_args()
    machine = describe(args.device)
    done = {row.claim.number for row in read(args.json) if row.machine == machine}
    failed = []
    for numbers, program, words in programs(machine):
        if numbers[0] in done:
            continue
        command = [sys.executable, str(HERE / program), *words, "--rounds", args.rounds]
        command += ["--models", str(args.models), "--data", str(args.data)]
        command += ["--device", args.device, "--json", str(args.json)]
        print(f"== {program} {' '.join(words)}", flush=True)
        if subprocess.run(command).returncode != 0:
            failed.append(program)
    args.json.with_name("RESULTS.md").write_text(results(read(args.json)), encoding="utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def programs(machine: str) -> Programs:
    """Return what is to be measured on a machine, by its description."""
    return ON_ACCELERATORS if _device(machine) else PROGRAMS


def results(measured: Sequence[Measured]) -> str:
    """Return the results as Markdown, machine by machine."""
    machines = dict.fromkeys(row.machine for row in measured)
    parts = [
        section(machine, [r for r in measured if r.machine == machine]) for machine in machines
    ]
    if not any(map(_device, machines)):
        parts.append(NO_ACCELERATOR)
    return f"""# Benchmarks

Each line compares two things that one program ran in turn, in one process or as processes one
after the other; a ratio is the median over rounds, with the least and the greatest in brackets.
`make bench` measures what this machine has not measured yet; what each program compares is told at
its top. The aims are those of two cores with AVX512-BF16: where bfloat16 is not native, extraction
and heavy heads compute in float32, as the loop by hand does.

{"".join(parts)}"""


def section(machine: str, measured: Sequence[Measured]) -> str:
    """Return the results of one machine, by number."""
    rows = sorted(measured, key=lambda row: row.claim.number)
    lines = [
        f"| {row.claim.number} | {row.claim.title} | {row.claim.aim} | {row.claim.found} "
        f"| {VERDICTS[row.claim.reached]} | {row.when} |"
        for row in rows
    ]
    notes = [
        f"- {row.claim.number}, {row.claim.title}: {row.claim.details}"
        for row in rows
        if row.claim.details
    ]
    table = ["| # | what | aim | measured | | when |", "|---|---|---|---|---|---|", *lines]
    heading = ", ".join(_told(machine, "processor", "instruction sets")) + _device(machine)
    return "\n".join(
        [f"## {heading}", "", machine, "", *table, "", *notes, *_left(machine, rows), "", ""]
    )


def _left(machine: str, rows: Sequence[Measured]) -> list[str]:
    """Return a line that names the programs that have not run on a machine, if any."""
    done = {row.claim.number for row in rows}
    left = [
        f"{', '.join(map(str, numbers))} (`{' '.join((program, *words))}`)"
        for numbers, program, words in programs(machine)
        if numbers[0] not in done
    ]
    return ["", f"Not measured on this machine yet: {', '.join(left)}."] if left else []


def _told(machine: str, *names: str) -> list[str]:
    """Return what a description tells of some things, without those it does not tell of."""
    lines = [line.removeprefix("- ").partition(": ") for line in machine.splitlines()]
    return [value for name, _, value in lines if name in names]


def _device(machine: str) -> str:
    first = machine.splitlines()[0]
    return f", on {first.removeprefix('- measured on: ')}" if "measured on" in first else ""


if __name__ == "__main__":
    main()
