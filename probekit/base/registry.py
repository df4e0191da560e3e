"""Names and options as users type them: looked up in a registry, with errors that help.

A registry is a dict literal; the options of what it holds, and of commands, are fields of a
dataclass.
"""

import dataclasses
import difflib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from probekit.errors import OptionError, UnknownNameError, clause_of

T = TypeVar("T")
_Types = tuple[Any, ...]

PathName = str | os.PathLike[str]
"""A path, or what may be one."""


class LazyRegistry(Mapping[str, T]):
    """A registry whose plug-ins are imported when they are asked for; names alone cost nothing."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Import nothing yet.

        Args:
            places: where each plug-in is, as ``module:attribute``.
        """
        self._places = places

    def __getitem__(self, name: str) -> T:
        """Import a plug-in."""
        module, _, attribute = self._places[name].partition(":")
        return cast(T, getattr(import_module(module), attribute))

    def __iter__(self) -> Iterator[str]:
        """Yield the names, in order."""
        return iter(self._places)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)


class Panel(StrEnum):
    """Titles of the panels in the help of commands, in their order."""

    FIRST = "Options"
    STORED = "What is stored"
    TEXTS = "How texts are run"
    MODELLING = "Language modelling"
    ENTRIES = "Model, and entries that are there"
    TRAINED = "What is trained"
    SENTENCES = "Which sentences"
    FITTED = "How it is fitted"
    OWN_DATA = "Your own data"
    KEPT = "What is kept"
    SHOWN = "What is shown"
    MACHINE = "Cache, machine and messages"


def option(default: Any, help: str, panel: Panel | None = None, **more: Any) -> Any:
    """Return a field of a dataclass that is an option of a command too, see `cli.spread`.

    Args:
        default: the field's default.
        help: what the command line says of it.
        panel: where the command line shows it; the dataclass's ``PANEL`` if None.
        more: what else the command line needs to show it, such as ``metavar``.
    """
    return dataclasses.field(default=default, metadata={"help": help, "panel": panel, **more})


def argument(name: str) -> str:
    """Return a name, which may be a stranger's, as what a command takes for no option."""
    return f"./{name}" if name.startswith("-") else name


def typed_name(name: PathName) -> str:
    """Return a task, model or entry as it is typed: ``Path("data.csv")`` is ``./data.csv``.

    So a path is never taken for the name of a task or of a repository.
    """
    if isinstance(name, str):
        return name
    path = os.fspath(name)
    return path if path.startswith((".", "/", "~")) else f"./{path}"


def listed(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return names, of a text those between its commas; empty ones are left out."""
    items = names.split(",") if isinstance(names, str) else names
    return tuple(item.strip() for item in items if item.strip())


def flag(name: str) -> str:
    """Return an option as it is typed on the command line."""
    return f"--{name.replace('_', '-')}"


def choose(kind: str, name: str, registry: Mapping[str, T]) -> T:
    """Return ``registry[name]``.

    Args:
        kind: what the registry holds, for the message ("head", "task").
        name: the name asked for.
        registry: the choices.

    Raises:
        UnknownNameError: the name is unknown; the message lists the choices and the nearest match.
    """
    if name in registry:
        return registry[name]
    hint = nearest(name, registry)
    raise UnknownNameError(
        f"unknown {kind} {name!r}.{hint} Choose from: {', '.join(sorted(registry))}."
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what to ask of a name that is unknown; nothing where none is like it."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    near = near or [start for start in known if name.startswith(f"{start}_")]
    return f" Did you mean {near[0]!r}?" if near else ""


def revive(kind: str, value: Mapping[str, Any], registry: Mapping[str, Callable[..., T]]) -> T:
    """Return the plug-in whose dict form is ``value``: its ``name``, and its options by name.

    Args:
        kind: what the registry holds, for the message ("head", "decoder").
        value: the dict form.
        registry: the classes by name.

    Raises:
        UnknownNameError: the name is unknown.
        OptionError: an option that the plug-in does not have, or a value that it refuses, or an
            infinite one.
    """
    options = dict(value)
    name = str(options.pop("name", ""))
    make = choose(kind, name, registry)
    for option, number in options.items():
        if isinstance(number, float) and not math.isfinite(number):
            raise OptionError(f"{kind} {name!r}: {option} must be finite; found {number}.")
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"{kind} {name!r}: {clause_of(error)}.") from None


def parse(kind: str, text: str, registry: Mapping[str, Callable[..., T]]) -> T:
    """Return the plug-in that a user wrote as ``NAME`` or ``NAME:option=value:option=value``.

    Args:
        kind: what the registry holds, for messages ("head", "decoder").
        text: what the user wrote.
        registry: the classes by name, each a dataclass whose fields of type int, float, bool, str,
            a ``Literal`` of these, or one of them or None, can be given.

    Raises:
        UnknownNameError: the name is unknown.
        OptionError: an option that the plug-in does not have or that is given twice, or a value
            of another type.
    """
    name, *given = text.split(":")
    known = _options(choose(kind, name, registry))
    options: dict[str, Any] = {}
    for pair in given:
        option, equals, value = (part.strip() for part in pair.partition("="))
        if option not in known or not equals:
            raise OptionError(_unknown(kind, name, pair, known))
        if option in options:
            raise OptionError(f"{kind} {name!r}: option {option!r} is given twice in {text!r}.")
        try:
            options[option] = _read(value, known[option])
        except ValueError:
            raise OptionError(
                f"{kind} {name!r}: {option} must be {_describe(known[option])}; found {value!r}."
            ) from None
    return revive(kind, {"name": name, **options}, registry)


def normal_form(kind: str, text: str, registry: Mapping[str, Callable[..., object]]) -> str:
    """Return the one text that stands for a plug-in: the options that are not the default.

    Args:
        kind: as for ``parse``, as are the others and the errors.
        text: what the user wrote.
        registry: the classes by name.
    """
    if not isinstance(text, str):
        raise OptionError(
            f"{kind} {text!r}: expected a name; give it one with probekit.register_{kind}"
            f'("mine", ...), then {kind}="mine".'
        )
    chosen = parse(kind, text, registry)
    return text_of(chosen, registry, text.partition(":")[0])


def text_of(
    plugin: Any, registry: Mapping[str, Callable[..., object]], name: str | None = None
) -> str:
    """Return how a plug-in is typed: its name, and the options that are not the default.

    Args:
        plugin: a value of a class in the registry.
        registry: the classes by name.
        name: its name, where it does not say it.
    """
    called = plugin.name if name is None else name
    default = registry[called]()
    values = {option: getattr(plugin, option) for option in _options(registry[called])}
    changed = {option: v for option, v in values.items() if v != getattr(default, option)}
    return as_typed(called, changed)


def as_typed(name: str, options: Mapping[str, Any]) -> str:
    """Return a plug-in with options as a user types it, which `parse` reads."""
    return ":".join([name, *(f"{option}={_write(value)}" for option, value in options.items())])


def _write(value: Any) -> str:
    """Return the text that is read as a value."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _options(make: Callable[..., Any]) -> dict[str, _Types]:
    """Return every option of a plug-in that text can give, and the types that its value may have.

    These are the members of a union, or the type alone.
    """
    hints = get_type_hints(make)
    assert dataclasses.is_dataclass(make), f"{make} is not a dataclass"
    plain = (bool, int, float, str, NoneType)
    options = {}
    for name in (field.name for field in dataclasses.fields(make) if field.init):
        union = get_origin(hints[name]) in (Union, UnionType)
        types = get_args(hints[name]) if union else (hints[name],)
        if all(member in plain or get_origin(member) is Literal for member in types):
            options[name] = types
    return options


def _unknown(kind: str, name: str, pair: str, known: Mapping[str, _Types]) -> str:
    if not known:
        return f"{kind} {name!r} has no options; found {pair!r}. Write {name!r} alone."
    listed = ", ".join(f"{option} ({_describe(types)})" for option, types in known.items())
    return f"{kind} {name!r} has no option {pair!r}. Write {name}:OPTION=VALUE, with {listed}."


def _describe(types: _Types) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    words[NoneType] = "none"
    # of those that can be given a `Literal` alone has arguments: its values
    return " or ".join(" or ".join(map(str, get_args(member))) or words[member] for member in types)


def _read(text: str, types: _Types) -> Any:
    """Return the value that a text stands for; ValueError when it is of no allowed type."""
    for type_ in types:
        try:
            return _read_one(text, type_)
        except ValueError:
            continue
    raise ValueError(text)


def _read_one(text: str, type_: Any) -> Any:
    if get_origin(type_) is Literal:
        values: Mapping[str, Any] = {str(value).lower(): value for value in get_args(type_)}
    elif type_ is bool:
        values = {"true": True, "false": False}
    elif type_ is NoneType:
        values = {"none": None}
    else:
        return type_(text)
    if text.lower() not in values:
        raise ValueError(text)
    return values[text.lower()]
