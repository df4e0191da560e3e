"""Options that several commands share, as one dataclass instead of a list in every signature."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from probekit.cli.options import split_list


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its dataclasses as a parameter of its own.

    Typer reads the signature of the result, and so shows every field as an option; the command
    itself receives those of one dataclass as one value.

    Args:
        command: some of its keyword parameters are annotated with a dataclass, whose fields are
            ``Annotated`` for typer, or made by `base.options.option`, and have defaults.
    """
    signature = inspect.signature(command)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_dataclass(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        parameters += [parameter] if group is None else _options(group)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {name: _value(group, given) for name, group in groups.items()}
        command(**given, **values)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass as keyword parameters."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=_shown(field, hints[field.name]),
        )
        for field in fields(group)
    ]


def _shown(field: Field[Any], hint: Any) -> Any:
    """Return a field's type as typer shows it: what `option` says, a tuple as a list in words."""
    if "help" not in field.metadata:
        return hint
    name = f"--{field.name.replace('_', '-')}"
    return Annotated[str | None if _is_list(hint) else hint, typer.Option(name, **field.metadata)]


def _value(group: Any, given: dict[str, Any]) -> Any:
    """Take the fields of a dataclass out of what was typed, and return the value they make."""
    hints = get_type_hints(group, include_extras=True)
    typed = {field.name: given.pop(field.name) for field in fields(group)}
    for field in fields(group):
        value = typed[field.name]
        if "help" in field.metadata and _is_list(hints[field.name]) and value is not None:
            typed[field.name] = tuple(split_list(value))
    return group(**typed)


def _is_list(hint: Any) -> bool:
    """Say whether a type is a tuple, or one or None."""
    return any(get_origin(part) is tuple for part in (hint, *get_args(hint)))
