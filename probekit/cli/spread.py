"""Options that several commands share, as dataclasses instead of a list in every signature."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from probekit.base.registry import Panel, flag
from probekit.cli.arguments import split_list

T = TypeVar("T")


@dataclass(frozen=True)
class OptionsOf:
    """Marks a parameter that receives options by name, as the user typed them.

    Attributes:
        groups: dataclasses; their fields that have help (`base.registry.option`) are options.
        apart: names of those that the command does not take.
    """

    groups: tuple[Any, ...]
    apart: tuple[str, ...] = ()

    @property
    def fields(self) -> "dict[str, Field[Any]]":
        """The fields that are options, by name."""
        every = {field.name: field for group in self.groups for field in fields(group)}
        asked = (name for name in every if name not in self.apart)
        return {name: every[name] for name in asked if "help" in every[name].metadata}

    @property
    def lists(self) -> list[str]:
        """The options that may have several values, separated by commas."""
        return [name for name, field in self.fields.items() if "each" in field.metadata]


def spread(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command each field of its dataclasses as a parameter of its own.

    Typer reads the signature of the result, and so shows every field as an option; the command
    itself receives those of one dataclass as one value, and those of `OptionsOf` by name. Where
    its docstring says ``{lists}``, the options are named that may have several values.

    Args:
        command: some of its keyword parameters are annotated with a dataclass, whose fields are
            ``Annotated`` for typer, or made by `base.registry.option`, and have defaults; or with
            `OptionsOf`.
    """
    # sweep(model, *, asked: Asked, crew: Crew, shared: TrainingOptions) has for typer the
    # parameters model, label, lr, ..., workers, engine, seeds, out, ...; what typer gives for them
    # reaches the command as model, asked={"label": ..., "lr": ...}, crew=Crew(...), shared=....
    signature = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    marks: dict[str, OptionsOf] = {}
    for name, parameter in signature.parameters.items():
        about = getattr(parameter.annotation, "__metadata__", ())
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += _parameters(groups[name])
        elif mark := next((mark for mark in about if isinstance(mark, OptionsOf)), None):
            marks[name] = mark
            for group in mark.groups:
                parameters += (each for each in _parameters(group) if each.name in mark.fields)
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def run(**typed: Any) -> T:
        values: dict[str, Any] = {name: _value(group, typed) for name, group in groups.items()}
        for name, mark in marks.items():
            values[name] = {option: typed.pop(option) for option in mark.fields}
        return command(**typed, **values)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    several = [flag(name) for mark in marks.values() for name in mark.lists]
    lists = " and ".join([", ".join(several[:-1]), *several[-1:]])
    run.__doc__ = (command.__doc__ or "").replace("{lists}", lists)
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass that are options, as keyword parameters."""
    hints = get_type_hints(group, include_extras=True)
    # what has no help is for the library alone
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if "each" in field.metadata else field.default,
            annotation=_shown(group, field, hints[field.name]),
        )
        for field in fields(group)
        if "help" in field.metadata or get_origin(hints[field.name]) is Annotated
    ]


def _shown(group: Any, field: "Field[Any]", hint: Any) -> Any:
    """Return a field's type as typer shows it: what `option` says, a list in words."""
    if "help" not in field.metadata:
        return hint
    # how the library reads the option is nothing that typer takes
    about = {k: v for k, v in field.metadata.items() if k not in ("each", "unset", "panel")}
    about["rich_help_panel"] = field.metadata["panel"] or getattr(group, "PANEL", Panel.FIRST)
    if "unset" in field.metadata:
        about["show_default"] = str(field.metadata["unset"])
    in_words = "each" in field.metadata or _is_list(hint)
    return Annotated[str | None if in_words else hint, typer.Option(flag(field.name), **about)]


def _value(group: Any, typed: dict[str, Any]) -> Any:
    """Take the fields of a dataclass out of what was typed, and return the value they make."""
    hints = get_type_hints(group, include_extras=True)
    values = {field.name: typed.pop(field.name) for field in fields(group) if field.name in typed}
    for field in fields(group):
        text = values.get(field.name)
        if "help" in field.metadata and _is_list(hints[field.name]) and text is not None:
            values[field.name] = tuple(split_list(text))
    return group(**values)


def _is_list(hint: Any) -> bool:
    """Say whether a type is a tuple, or one or None."""
    return any(get_origin(part) is tuple for part in (hint, *get_args(hint)))
