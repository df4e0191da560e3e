"""Run every benchmark and write RESULTS.md: what was claimed, what was measured, on what machine.

    make bench MODELS=models DATA=data

What a benchmark measured is kept in ``--json``, so that one that failed can be run again alone:
claims of the same number that are already in the file are not measured again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from machine import describe
from measure import Claim

HERE = Path(__file__).parent
PROGRAMS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (1, "extraction.py", ("mpnet-base",)),
    (2, "extraction.py", ("minilm-l6",)),
    (5, "neurox_extraction.py", ()),
    (6, "extraction_memory.py", ()),
    (7, "epochs.py", ()),
    (8, "head_step.py", ()),
    (9, "depth_sklearn.py", ()),
    (10, "sweeping.py", ()),
    (12, "reading.py", ()),
    (13, "larger_than_memory.py", ()),
    (14, "int8.py", ()),
    (15, "startup.py", ()),
)
"""The first claim that each program measures, the program, and its arguments."""


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--json", type=Path, default=HERE / "results.jsonl")
    args = parser.parse_args()
    done = {claim.number for claim in read(args.json)}
    failed = []
    for number, program, words in PROGRAMS:
        if number in done:
            continue
        command = [sys.executable, str(HERE / program), *words, "--rounds", args.rounds]
        command += ["--models", str(args.models), "--data", str(args.data)]
        command += ["--device", args.device, "--json", str(args.json)]
        print(f"== {program} {' '.join(words)}", flush=True)
        if subprocess.run(command).returncode != 0:
            failed.append(program)
    (HERE / "RESULTS.md").write_text(results(read(args.json)), encoding="utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def read(file: Path) -> list[Claim]:
    """Return the claims in a file, by number."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return sorted((Claim(**json.loads(line)) for line in lines), key=lambda claim: claim.number)


def results(claims: Sequence[Claim]) -> str:
    """Return the results as Markdown."""
    rows = [
        f"| {claim.number} | {claim.title} | {claim.aim} | {claim.found} | {verdict(claim)} |"
        for claim in claims
    ]
    notes = [
        f"- {claim.number}, {claim.title}: {claim.details}" for claim in claims if claim.details
    ]
    table = "\n".join(["| # | what | aim | measured | |", "|---|---|---|---|---|", *rows])
    return f"""# Benchmarks

Each line compares two things that one program ran in turn, in one process or as processes one
after the other; a ratio is the median over rounds, with the least and the greatest in brackets.
`make bench` measures everything again; what each program compares is told at its top.

{describe()}

{table}

## Details

{chr(10).join(notes)}
"""


def verdict(claim: Claim) -> str:
    """Return whether the aim is reached, in words."""
    return {True: "reached", False: "**not reached**", None: ""}[claim.reached]


if __name__ == "__main__":
    main()
