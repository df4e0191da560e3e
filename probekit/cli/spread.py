"""Options that several commands share, as one dataclass instead of a list in every signature."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its dataclasses as a parameter of its own.

    Typer reads the signature of the result, and so shows every field as an option; the command
    itself receives those of one dataclass as one value.

    Args:
        command: some of its keyword parameters are annotated with a dataclass, whose fields are
            ``Annotated`` for typer and have defaults.
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
        values = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
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
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
