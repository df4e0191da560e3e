"""Environments of judges that cannot live beside probekit's packages, and the models they run."""

import os
import subprocess
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build"

MODELS = Path(os.environ.get("PROBEKIT_MODELS", "models"))
"""Holds ``minilm-l6``, ``mpnet-base`` and ``smollm2-135m``, the last as a GGUF file."""


def environment(*requirements: str, without: tuple[str, ...] = ()) -> Path:
    """Make an environment, if it is not there, and return its interpreter.

    Args:
        requirements: what pip installs; the first one names the folder.
        without: what is removed again: it is of a build for GPUs, and nothing here needs it.
    """
    folder = FOLDER / f"judges-{requirements[0].split('=')[0]}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists() or stamp.read_text() != str(requirements):
        venv.create(folder, clear=True, with_pip=True)
        for torch in requirements:
            if torch.startswith("torch=="):  # first, so that a CPU wheel will do
                subprocess.run((python, "-m", "pip", "install", "--quiet", torch), check=True)
        subprocess.run((python, "-m", "pip", "install", "--quiet", *requirements), check=True)
        if without:
            subprocess.run(
                (python, "-m", "pip", "uninstall", "--quiet", "--yes", *without), check=True
            )
        stamp.write_text(str(requirements))
    return python
