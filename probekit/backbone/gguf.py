"""The optional extra that reads GGUF files."""

from importlib.util import find_spec

from probekit.errors import BackboneError

PACKAGES = ("gguf", "accelerate")


def require_gguf(model: str) -> None:
    """Check that the packages which read GGUF files are installed.

    Raises:
        BackboneError: one is missing; the message says how to install it.
    """
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise BackboneError(
            f"model {model!r}: reading a GGUF file needs the package {' and '.join(missing)}. "
            'Run `pip install ".[gguf]"` in your checkout of the probekit repository '
            '(the extra "probekit[gguf]").'
        )
