"""Options that several commands share, as one dataclass instead of a list in every signature."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of the dataclass ``shared`` as a parameter of its own.

    Typer reads the signature of the result, and so shows every field as an option; the command
    itself receives them as one value.

    Args:
        command: its last parameter is ``shared``, annotated with a dataclass whose fields are
            ``Annotated`` for typer and have defaults.
    """
    signature = inspect.signature(command)
    *own, shared = signature.parameters.values()
    kind = shared.annotation
    hints = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, shared.kind, default=field.default, annotation=hints[field.name]
        )
        for field in fields(kind)
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {option.name: given.pop(option.name) for option in options}
        command(**given, shared=kind(**values))

    parameters = [*own, *options]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
