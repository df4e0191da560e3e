"""Values in the words of an option: lists of numbers, lists of names, sizes."""

import itertools
import re
from collections.abc import Callable
from typing import TypeVar

from probekit.cli.options import split_list
from probekit.errors import OptionError
from probekit.train.option_groups import number_or_search

T = TypeVar("T")

_UNSET = ("auto", "none", "all")
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def each(text: str | None, read: Callable[[str], T], option: str) -> list[T | None]:
    """Read a comma-separated option: names, or numbers, ``auto``, ``none`` and ``all`` for unset.

    Raises:
        OptionError: an item is no such number.
    """
    if text is None:
        return [None]
    unset = () if read is str else _UNSET
    values: list[T | None] = []
    for item in split_list(text):
        try:
            values.append(None if item in unset else read(item))
        except ValueError:
            kind = "a whole number" if read is int else "a number"
            raise OptionError(f"{option}: {item!r} is not {kind}.") from None
    return values


def each_rate(text: str) -> tuple[list[float | str | None], list[tuple[tuple[str, float], ...]]]:
    """Read ``--lr``: numbers, ``auto``, ``search``, and rates of groups as ``mixing=0.1``.

    Returns:
        The numbers, and every combination of the rates of groups, sorted by group; one that names
        none where no group was given.

    Raises:
        OptionError: an item is no such thing.
    """
    items = split_list(text)
    plain = [item for item in items if "=" not in item]
    groups: dict[str, list[tuple[str, float]]] = {}
    for name, _, value in (item.partition("=") for item in items if "=" in item):
        (rate,) = each(value, float, f"--lr {name}") or [None]
        if rate is None:
            raise OptionError(f"--lr {name}={value}: give a number, such as {name}=0.1.")
        groups.setdefault(name.strip(), []).append((name.strip(), rate))
    combinations = itertools.product(*(groups[name] for name in sorted(groups)))
    return each(",".join(plain), number_or_search, "--lr"), list(combinations)


def parse_bytes(text: str | None) -> int | None:
    """Read a size such as ``8GB`` or ``500MB`` (powers of 1000), or ``8GiB`` (of 1024).

    Raises:
        OptionError: the text is not a size.
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower())
    if not found:
        raise OptionError(f"--memory {text!r} is not a size. Write 8GB, 500MB or 2GiB.")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])
