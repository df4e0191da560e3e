"""``--config FILE`` for every command: its options are defaults that the command line overrides."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from probekit.cli.config_file import Commands, Setting, read_config
from probekit.cli.help_panels import MACHINE, InPanels
from probekit.cli.planned_runs import PlannedRuns, carry_out
from probekit.cli.training_options import OF_RUNS

PLANS = ("train", "sweep", "depth")
"""Commands that train a plan."""

_LISTED = {
    *OF_RUNS.lists,
    *("head", "depth", "seeds", "layers", "split", "keep", "text", "also", "classes", "overlay"),
}
"""Options whose text may hold several values with commas between them."""

_BY_NUMBER = ("sentences",)
"""Options that name a column, which a number may do."""

_MORE, _MAKING = f"{__name__}.more", f"{__name__}.making"


def offer_config(apps: Mapping[str, typer.Typer]) -> None:
    """Give every command of some apps the option ``--config``.

    Args:
        apps: by what stands before their commands on the line; "" for the root.
    """
    found: dict[str, CommandInfo] = {}
    for before, app in apps.items():
        for info in app.registered_commands:
            assert info.callback is not None
            name = info.name or info.callback.__name__.replace("_", "-")
            found[f"{before} {name}".strip()] = info
    commands = {name: settings_of(info.callback) for name, info in found.items()}
    for info in found.values():
        info.callback = _with_option(info.callback, commands)


Info = OptionInfo | ArgumentInfo
"""What typer knows of a parameter besides its type."""


def parameters_of(command: Callable[..., Any] | None) -> Iterator[tuple[str, Any, Info | None]]:
    """Yield the parameters of a command: name, type, and what was declared for typer."""
    assert command is not None
    hints = get_type_hints(command, include_extras=True)
    for name in inspect.signature(command).parameters:
        annotated = get_origin(hints[name]) is Annotated
        hint, *about = get_args(hints[name]) if annotated else [hints[name]]
        yield name, hint, next((one for one in about if isinstance(one, Info)), None)


def settings_of(command: Callable[..., Any] | None) -> dict[str, Setting]:
    """Return what a file may set of a command, by key: flags without dashes, or arguments."""
    return {_key(name, info): _setting(name, hint) for name, hint, info in parameters_of(command)}


def _key(name: str, info: Info | None) -> str:
    """Return the key of a parameter: of ``--all`` it is ``all``, whatever its name in Python."""
    if not isinstance(info, OptionInfo):
        return name
    # typer keeps the first declaration as the default
    declared = [str(one) for one in (info.default, *(info.param_decls or ()))]
    flags = [one.partition("/")[0] for one in declared if one.startswith("--")]
    return (flags[0] if flags else name).removeprefix("--").replace("-", "_")


def _setting(name: str, hint: Any) -> Setting:
    union = get_origin(hint) in (Union, UnionType)
    plain = next(one for one in get_args(hint) if one is not type(None)) if union else hint
    repeated = get_origin(plain) is list
    kind = get_args(plain)[0] if repeated else plain
    kind = str if kind is Path else kind
    listed = kind is str and name in _LISTED | set(_BY_NUMBER) and plain is not Path
    return Setting(parameter=name, type=kind, repeated=repeated, listed=listed and not repeated)


def _with_option(command: Callable[..., Any] | None, commands: Commands) -> Callable[..., Any]:
    """Return a command with the parameter ``config``, which it never sees."""
    assert command is not None

    def load(ctx: typer.Context, value: Path | None) -> Path | None:
        if value is not None and not ctx.resilient_parsing and not ctx.meta.get(_MAKING):
            ctx.default_map, *more = read_config(value, _path(ctx), commands, plans=PLANS)
            ctx.meta[_MORE] = more
        return value

    option = typer.Option(
        "--config",
        is_eager=True,
        callback=load,
        metavar="FILE.toml",
        rich_help_panel=MACHINE,
        help="Take options from here; those on the command line go before.",
    )
    annotation = Annotated[Path | None, option]
    signature = inspect.signature(command)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = inspect.Parameter("config", keyword, default=None, annotation=annotation)

    @functools.wraps(command)
    def run(*arguments: Any, config: Path | None = None, **given: Any) -> Any:
        return command(*arguments, **given)

    parameters = [*signature.parameters.values(), added]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "config": annotation}
    return run


def _path(ctx: typer.Context) -> str:
    """Return the command's words, without the program's."""
    words: list[str] = []
    here: Any = ctx
    while here.parent is not None:
        words.insert(0, str(here.info_name))
        here = here.parent
    return " ".join(words)


class PlanCommand(InPanels):
    """A command that returns `PlannedRuns`: those of all tables of a plan file are one sweep."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words for the other tables of a plan, which the same words override."""
        words = list(args)
        rest = super().parse_args(ctx, args)
        ctx.obj = words
        return rest

    def invoke(self, ctx: Any) -> None:
        """Plan every table, then train."""
        tables: Sequence[Mapping[str, Any]] = ctx.meta.pop(_MORE, ())
        planned: list[PlannedRuns] = [super().invoke(ctx)]
        ctx.meta[_MAKING] = True
        for table in tables:
            one = self.make_context(ctx.info_name, list(ctx.obj), ctx.parent, default_map=table)
            with one:
                planned.append(super().invoke(one))
        carry_out(planned)
