"""Let other programs judge probekit, in an environment of their own; write docs/judged.csv.

The tests of tests/judges/ hold what probekit writes and computes against readers, engines and
metrics that others wrote. Each row is one judge's.

    python tools/judge.py [pytest's arguments]
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from try_range import ROOT, pinned

JUDGES = ROOT / "tests" / "judges"
TABLE = ROOT / "docs" / "judged.csv"
FOLDER = ROOT / "build" / "judges"


def main() -> None:
    """Install the judges, run their tests, and write the rows of what passed."""
    python = install()
    rows = FOLDER / "rows.jsonl"
    rows.write_text("")
    # what others warn about is theirs
    options = ("-m", "judges", "-rs", "-W", "default", *sys.argv[1:])
    command = (python, "-m", "pytest", *options, JUDGES)
    environment = {**os.environ, "PROBEKIT_JUDGED": str(rows)}
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    record([json.loads(line) for line in rows.read_text().splitlines()])
    sys.exit(status)


def install() -> Path:
    """Make the environment, and return its interpreter."""
    python = FOLDER / "bin" / "python"
    if not python.exists():
        venv.create(FOLDER, with_pip=True)
    pip = (python, "-m", "pip", "install", "--quiet")
    torch = pinned("torch")
    subprocess.run((*pip, torch), check=True)  # a CPU wheel will do
    subprocess.run(
        (*pip, torch, "-e", f"{ROOT}[dev,gguf]", "-r", JUDGES / "requirements.txt"), check=True
    )
    subprocess.run((*pip, "--no-deps", "-r", JUDGES / "alone.txt"), check=True)
    scripts = FOLDER / "npm"  # node looks for packages beside a script
    scripts.mkdir(exist_ok=True)
    for file in (JUDGES / "package.json", *JUDGES.glob("*.mjs")):
        shutil.copy(file, scripts)
    subprocess.run(("npm", "install", "--silent", "--prefix", scripts), check=True)
    return python


def record(rows: list[list[str]]) -> None:
    """Put rows into the table, in place of earlier ones of the same judge and matter."""
    with TABLE.open(newline="") as file:
        heading, *before = csv.reader(file)
    both = {
        (judge.split(" ")[0], what): [judge, what, *rest] for judge, what, *rest in before + rows
    }
    with TABLE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heading, *sorted(both.values())])


if __name__ == "__main__":
    main()
