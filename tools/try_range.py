"""Run the tests at either end of the ranges in pyproject.toml; write the result into the documents.

An environment is built in build/range: `lowest` has the floor of every package that is asked
for, `highest` the newest one that pip resolves. Both take several gigabytes, since the package
index has torch with CUDA.

    python tools/try_range.py lowest highest
    python tools/try_range.py highest --python 3.13
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "versions.md"
EXTRAS = "dev,demo,gguf,adapters,sentencepiece,tensorboard,wandb,quantize"
ENDS = {"lowest": "lowest-direct", "highest": "highest"}
"""Of a range, and what uv calls them."""

SHOWN = ("torch", "transformers", "datasets", "huggingface-hub", "zarr", "h5py", "scikit-learn")
_SUMMARY = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)


def main() -> None:
    """Build each environment, run the tests in it, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ends", nargs="+", choices=ENDS)
    version = "{}.{}".format(*sys.version_info)
    parser.add_argument("--python", default=version, help=f"version; default: {version}")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "range", help="folder")
    args = parser.parse_args()
    failed = False
    for end in args.ends:
        python = build(end, args.python, args.work)
        result, status = run_tests(python)
        failed |= status != 0
        start = f"| {end} | {args.python} |"
        record("end", start, [*versions(python), result, date.today().isoformat()])
    sys.exit(failed)


def build(end: str, version: str, work: Path) -> Path:
    """Make the environment of one end, and return its interpreter."""
    work.mkdir(parents=True, exist_ok=True)
    folder, pins = work / f"{end}-{version}", work / f"{end}-{version}.txt"
    extras = [word for extra in EXTRAS.split(",") for word in ("--extra", extra)]
    uv("pip", "compile", "--resolution", ENDS[end], "--python-version", version, *extras,
       ROOT / "pyproject.toml", "-o", pins)  # fmt: skip
    uv("venv", "--clear", "--python", version, folder)
    python = folder / "bin" / "python"
    uv("pip", "install", "--python", python, "-r", pins)
    uv("pip", "install", "--python", python, "--no-deps", "-e", ROOT)
    return python


def uv(*words: str | Path) -> None:
    """Run uv; an error ends the script."""
    subprocess.run((sys.executable, "-m", "uv", "--quiet", *words), check=True)


def run_tests(python: Path) -> tuple[str, int]:
    """Run the suite; return its last line and its exit code.

    Warnings are no errors here: those of the pinned versions are seen to by `make test`.
    """
    command = [python, "-m", "pytest", "-q", "-W", "default", "-n", "auto", "--maxprocesses", "8"]
    command += ["--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=outside, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    found = _SUMMARY.findall(done.stdout)
    return (found[-1] if found else "did not run"), done.returncode


def versions(python: Path) -> list[str]:
    """Return the versions of what the table shows."""
    told = "import sys; from importlib.metadata import version; "
    told += "print(*map(version, sys.argv[1:]))"
    done = subprocess.run((python, "-c", told, *SHOWN), check=True, capture_output=True, text=True)
    return done.stdout.split()


def pinned(package: str) -> str:
    """Return what constraints.txt says of a package, such as ``torch==2.13.0``."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{package}=="))


def record(table: str, start: str, cells: Sequence[str]) -> None:
    """Put a row into a table of the page of versions, in place of an earlier one.

    Args:
        table: its first heading.
        start: what the row begins with.
        cells: the others.
    """
    row = f"{start} {' | '.join(cells)} |"
    lines = [line for line in PAGE.read_text().splitlines() if not line.startswith(start)]
    heading = next(at for at, line in enumerate(lines) if line.startswith(f"| {table} |"))
    lines.insert(heading + 2, row)
    PAGE.write_text("\n".join(lines) + "\n")
    print(row, flush=True)


if __name__ == "__main__":
    main()
