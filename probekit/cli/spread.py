"""Options that several commands share, as dataclasses instead of a list in every signature."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from probekit.base.options import flag


@dataclass(frozen=True)
class OptionsOf:
    """Marks a parameter that receives options by name, as the user typed them.

    Attributes:
        groups: dataclasses; those of their fields that have help (``base.options``) are options.
    """

    groups: tuple[Any, ...]

    @property
    def fields(self) -> "dict[str, Field[Any]]":
        """The fields that are options, by name."""
        every = (field for group in self.groups for field in fields(group))
        return {field.name: field for field in every if "help" in field.metadata}


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its dataclasses as a parameter of its own.

    Typer reads the signature of the result, and so shows every field as an option; the command
    itself receives those of one dataclass as one value, and those of `OptionsOf` by name. Where
    its docstring says ``{lists}``, the options are named that may have several values.

    Args:
        command: some of its keyword parameters are annotated with a dataclass, whose fields have
            help, or are ``Annotated`` for typer, and have defaults; or with `OptionsOf`.
    """
    signature = inspect.signature(command)
    own = {
        parameter.name: (_options(parameter.annotation), parameter.annotation)
        for parameter in signature.parameters.values()
        if is_dataclass(parameter.annotation) or _mark(parameter.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += own[parameter.name][0] if parameter.name in own else [parameter]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {}
        for name, (options, annotation) in own.items():
            typed = {option.name: given.pop(option.name) for option in options}
            values[name] = typed if _mark(annotation) else annotation(**typed)
        command(**given, **values)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = (command.__doc__ or "").replace("{lists}", _lists(signature))
    return run


def _mark(annotation: Any) -> OptionsOf | None:
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, OptionsOf)), None)


def _options(annotation: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass, or of those of a mark, as keyword parameters."""
    mark = _mark(annotation)
    chosen = fields(annotation) if mark is None else mark.fields.values()
    groups = (annotation,) if mark is None else mark.groups
    hints: dict[str, Any] = {}
    for group in groups:
        hints |= get_type_hints(group, include_extras=True)
    return [_parameter(field, hints[field.name]) for field in chosen]


def _parameter(field: "Field[Any]", type_: Any) -> inspect.Parameter:
    about, default = field.metadata, field.default
    if "help" in about:
        shown = about.get("shown", about.get("unset"))
        option = typer.Option(
            flag(field.name),
            help=about["help"],
            show_default=True if shown is None else str(shown),
        )
        several = "each" in about
        type_ = Annotated[str | None if several else type_, option]
        default = None if several else default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_
    )


def _lists(signature: inspect.Signature) -> str:
    """Return the options that may have several values, in words."""
    marks = [_mark(parameter.annotation) for parameter in signature.parameters.values()]
    several = [
        flag(name)
        for mark in marks
        if mark is not None
        for name, field in mark.fields.items()
        if "each" in field.metadata
    ]
    return f"{', '.join(several[:-1])} and {several[-1]}" if several else ""
