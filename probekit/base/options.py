"""Options of the library that the command line shows: their help stands with the field."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a field of a dataclass that is an option of a command too, see `cli.spread`.

    Args:
        default: the field's default.
        help: what the command line says of it.
        more: what else the command line needs to show it, such as ``metavar``.
    """
    return field(default=default, metadata={"help": help, **more})


def flag(name: str) -> str:
    """Return an option as it is typed on the command line."""
    return f"--{name.replace('_', '-')}"
