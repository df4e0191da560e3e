"""``--protocol NAME|FILE.toml``: a named preset, or the details of training that a file states."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from probekit.base.registry import nearest
from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.cli.arguments import split_list
from probekit.cli.config_option import load_toml
from probekit.errors import OptionError
from probekit.train.sweeps.protocols import PLAIN, Protocol, get_protocol

Given = str | Mapping[str, Any]
"""What is typed, or the table ``[protocol]`` of a config file."""


def name_or_table(given: Given) -> Given:
    """Return what was given: typer has no type for a word or a table."""
    return given


def read_protocol(given: Given | None) -> Protocol:
    """Return the protocol that is asked for, the plain one for None.

    Args:
        given: ``NAME``, ``FILE.toml``, or ``NAME,FILE.toml``, where the file goes before the
            preset; or what such a file would hold.

    Raises:
        UnknownNameError: there is no preset of that name.
        MissingFileError: there is no such file.
        OptionError: it is no TOML, has a field that no protocol states, or a value of another type.
    """
    if given is None or isinstance(given, Mapping):
        return replace(PLAIN, options=_details(given or {}, "[protocol]"))
    protocol = PLAIN
    for word in split_list(given):
        if word.endswith(".toml"):
            stated = _details(load_toml(Path(word), "--protocol"), word)
            protocol = replace(protocol, options={**protocol.options, **stated})
        else:
            named = get_protocol(word)
            protocol = replace(named, options={**named.options, **protocol.options})
    return protocol


def _details(table: Mapping[str, Any], where: str) -> dict[str, list[Any]]:
    """Return the values of each field: one, or those of an array.

    Raises:
        OptionError: an unknown field, or a value of another type.
    """
    found = {}
    for name, value in table.items():
        if name not in PROTOCOL_DEFAULTS:
            raise OptionError(
                f"{where}: unknown field {name!r}.{nearest(name, PROTOCOL_DEFAULTS)} A protocol "
                f"states {', '.join(PROTOCOL_DEFAULTS)}."
            )
        values = value if isinstance(value, list) else [value]
        text = isinstance(PROTOCOL_DEFAULTS[name], str)
        fitting = [one for one in values if isinstance(one, str if text else int | float)]
        if not values or len(fitting) < len(values) or any(isinstance(one, bool) for one in values):
            kind = "text" if text else "a number"
            raise OptionError(
                f"{where}: {name} must be {kind}, or an array of these; found {value!r:.80}."
            )
        found[name] = values
    return found
