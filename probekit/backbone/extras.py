"""Optional packages that some models need."""

from importlib.util import find_spec

from probekit.errors import BackboneError

_EXTRAS = {
    "gguf": ("reading a GGUF file", ("gguf", "accelerate")),
    "adapters": ("applying the adapter that lies beside its weights", ("peft",)),
}
"""Extra of probekit to what it is for, and its packages."""


def require_extra(model: str, extra: str) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        BackboneError: one is missing; the message says how to install it.
    """
    purpose, packages = _EXTRAS[extra]
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise BackboneError(
            f"model {model!r}: {purpose} needs the package {' and '.join(missing)}. "
            f'Run `pip install ".[{extra}]"` in your checkout of the probekit repository '
            f'(the extra "probekit[{extra}]").'
        )
