"""Build a wheel, install it into a fresh environment outside the checkout, run the demo there.

A package with a head for it, `examples/plugin`, is installed beside it, and that head trained.

What works from a checkout may be missing from a wheel: data files, stubs, files beside the package.

    python tools/try_wheel.py
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
WHERE = "import probekit, sys; sys.exit(not probekit.__file__.startswith(sys.prefix))"
LEFT = ("depth.png", "weights.png", "demo-ner.jsonl", "report.html")
"""What the demo leaves."""


def run(*words: str | Path, folder: Path) -> None:
    """Run a command in a folder; an error ends the script."""
    print("$", *words, flush=True)
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run(words, cwd=folder, env=outside, check=True)


def build(folder: Path) -> Path:
    """Build the wheel of the checkout, and return it."""
    pip = (sys.executable, "-m", "pip", "-q")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, folder=folder)
    (wheel,) = folder.glob("probekit-*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and return its folder of commands."""
    venv.create(folder, with_pip=True)
    bin_ = folder / "bin"
    pip = (bin_ / "python", "-m", "pip", "-q", "install", "-c", CONSTRAINTS)
    run(*pip, "torch", folder=folder)  # first, as `make install` has it
    run(*pip, f"{wheel}[demo]", folder=folder)
    return bin_


def main() -> None:
    """Build, install, and run what a user runs first."""
    with tempfile.TemporaryDirectory(prefix="probekit-wheel-") as name:
        folder = Path(name).resolve()
        bin_ = install(build(folder), folder / "environment")
        run(bin_ / "python", "-c", WHERE, folder=folder)
        run(bin_ / "probekit", "--help", folder=folder)
        run(bin_ / "probekit", "demo", folder=folder)
        pip = (bin_ / "python", "-m", "pip", "-q", "install", "--no-deps")
        run(*pip, ROOT / "examples" / "plugin", folder=folder)
        ner = ("minilm-l6", "demo-ner", "--cache", "demo/cache", "--epochs", "2")
        run(bin_ / "probekit", "train", *ner, "--head", "middle", folder=folder)
        missing = [one for one in LEFT if not (folder / "demo" / one).is_file()]
        if missing:
            sys.exit(f"the demo of the wheel left no {', '.join(missing)}")


if __name__ == "__main__":
    main()
