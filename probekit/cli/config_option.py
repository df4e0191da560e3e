"""``--config FILE`` for every command: its options are defaults that the command line overrides."""

import functools
import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from probekit.base.registry import flag, nearest
from probekit.cli.help_panels import MACHINE
from probekit.cli.training_options import OF_RUNS
from probekit.errors import MissingFileError, OptionError

_TYPED_ALONE = frozenset({"trust_remote_code"})
"""Options that must be typed anew every time."""

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_LIST_WORDS = "text, a number, or an array of these"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An option or argument of a command, as a config file may set it.

    Attributes:
        parameter: its name in the command's signature.
        type: ``str``, ``int``, ``float`` or ``bool``; a path is text.
        repeated: whether it may be given several times, so that a list is a list.
        listed: whether its text may hold several values with commas between them, which an array
            stands for.
    """

    parameter: str
    type: type
    repeated: bool = False
    listed: bool = False

    @property
    def words(self) -> str:
        """What may stand for it in a file."""
        if self.repeated:
            return f"{_WORDS[self.type]}, or an array of {_WORDS[self.type]}"
        return _LIST_WORDS if self.listed else _WORDS[self.type]

    def read(self, value: Any) -> Any:
        """Return a value of a file as the command line would have it.

        Raises:
            ValueError: it is of another type.
        """
        items = value if isinstance(value, list) else [value]
        if self.repeated:
            return [self._one(item) for item in items]
        if isinstance(value, list) and not self.listed:
            raise ValueError
        if not self.listed:
            return self._one(value)
        if not items or any(isinstance(one, bool | dict | list) for one in items):
            raise ValueError
        if any(not isinstance(one, str | int | float) for one in items):
            raise ValueError
        if self.parameter == "seeds" and isinstance(value, list) and len(items) == 1:
            return f"{items[0]},"  # 5 alone would be five seeds, not seed 5
        return ",".join(map(str, items))

    def _one(self, value: Any) -> Any:
        fits = isinstance(value, int | float) if self.type is float else type(value) is self.type
        if not fits or (self.type is float and isinstance(value, bool)):
            raise ValueError
        return value


Commands = Mapping[str, Mapping[str, Setting]]
"""The settings of each command, such as ``cache ls``, by the key that a file has for them."""


def read_config(path: Path, command: str, commands: Commands) -> dict[str, Any]:
    """Return the options that a file gives a command, by parameter.

    What stands before all sections is of the command, whichever it is. A section ``[train]`` is of
    that command alone, so that one file serves several.

    Args:
        path: the file.
        command: the command that is run.
        commands: all commands.

    Raises:
        MissingFileError: there is no such file.
        OptionError: it is no TOML; a key or section is unknown, or a value has the wrong type.
    """
    found = _load(path)
    sections = {name: one for name, one in found.items() if isinstance(one, dict)}
    shared = {name: one for name, one in found.items() if name not in sections}
    sections = _by_command(path, sections, commands)
    for name, section in sections.items():
        _read(path, section, name, commands)
    return _read(path, shared | sections.get(command, {}), command, commands)


def _load(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text("utf-8-sig"))  # some editors write a mark in front
    except FileNotFoundError:
        raise MissingFileError(f"--config {path}: no such file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"--config {path}: not TOML ({error}).") from None
    except OSError as error:
        reason = error.strerror or error
        raise OptionError(f"--config {path}: cannot be read ({reason}).") from None
    return {name.replace("-", "_") if not isinstance(one, dict) else name: one
            for name, one in found.items()}  # fmt: skip


def _by_command(path: Path, sections: Mapping[str, Any], commands: Commands) -> dict[str, Any]:
    """Return the sections by command: ``[cache-ls]`` is that of ``cache ls``.

    Raises:
        OptionError: a section is of no command.
    """
    named = {_section(command): command for command in commands}
    found = {}
    for name, section in sections.items():
        if name not in named:
            raise OptionError(
                f"{path}: section [{name}] is of no command.{nearest(name, named)} A section "
                "is named after a command, such as [train] or [cache-ls]."
            )
        found[named[name]] = {key.replace("-", "_"): value for key, value in section.items()}
    return found


def _section(command: str) -> str:
    return command.replace(" ", "-")


def _read(path: Path, table: Mapping[str, Any], command: str, commands: Commands) -> dict[str, Any]:
    """Return the values of a table by parameter.

    Raises:
        OptionError: a key is none of the command's or is to be typed, or its value has another
            type.
    """
    known, read = commands[command], {}
    for key, value in table.items():
        if key in _TYPED_ALONE:
            raise OptionError(
                f"{path}: {key} is taken from no file, which may be another's: type "
                f"{flag(key)} on the command line, or leave it out."
            )
        if key not in known:
            raise OptionError(f"{path}: {_unknown(key, command, commands)}")
        try:
            read[known[key].parameter] = known[key].read(value)
        except ValueError:
            expected, found = known[key].words, _shown(value)
            raise OptionError(f"{path}: {key} must be {expected}; found {found}.") from None
    return read


def _unknown(key: str, command: str, commands: Commands) -> str:
    """Return what is wrong with a key, and the nearest one that is known."""
    having = [name for name, settings in commands.items() if key in settings]
    if having:
        section = _section(having[0])
        return (
            f"`probekit {command}` has no option {key}; {_listed(having[:4])} "
            f"{'has' if len(having) == 1 else 'have'}. Put it below a section, [{section}]."
        )
    hint = nearest(key, commands[command])
    return f"unknown key {key!r} for `probekit {command}`.{hint} See `probekit {command} --help`."


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _shown(value: Any) -> str:
    kinds = {bool: "", int: "", float: "", str: "", list: "an array, ", dict: "a table, "}
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{kinds.get(type(value), f'a {type(value).__name__}, ')}{text:.80}"


_LISTED = {
    *OF_RUNS.lists,
    *("head", "depth", "seeds", "layers", "split", "keep", "text", "also", "classes", "overlay"),
}
"""Options whose text may hold several values with commas between them."""

_BY_NUMBER = ("sentences",)
"""Options that name a column, which a number may do."""


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
        if value is not None and not ctx.resilient_parsing:
            ctx.default_map = read_config(value, _path(ctx), commands)
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
