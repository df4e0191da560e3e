"""Options that say what they are: help beside the default, for the command line to show."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a field of a dataclass with help.

    Args:
        default: its value if it is not given.
        help: what it is, in a line for people.
        more: whatever else the command line is to know of it.
    """
    return field(default=default, metadata={"help": help, **more})


def flag(name: str) -> str:
    """Return an option as it is typed on the command line."""
    return f"--{name.replace('_', '-')}"
