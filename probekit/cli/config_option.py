"""``--config FILE`` for every command: its options are defaults that the command line overrides."""

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from typer.models import OptionInfo, ParameterInfo

from probekit.base.registry import flag, nearest
from probekit.cli.output import log_to
from probekit.errors import MissingFileError, OptionError

_TYPED_ALONE = frozenset({"trust_remote_code"})
"""Options that must be typed anew every time."""

_LOG_FILE, _PROTOCOL = "log_file", "protocol"
"""An option of all commands, and one whose value may be a table."""

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_LIST_WORDS = "text, a number, or an array of these"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An option or argument of a command, as a config file may set it.

    Attributes:
        parameter: its name in the command's signature.
        type: ``str``, ``int``, ``float`` or ``bool``; a path is text.
        repeated: whether it may be given several times, so that a list is a list.
        listed: whether an array stands for its text, the values with commas between them.
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
        if self.parameter == _PROTOCOL and isinstance(value, dict):
            return value
        items = value if isinstance(value, list) else [value]
        if self.repeated:
            return [self._one(item) for item in items]
        if isinstance(value, list) and not self.listed:
            raise ValueError
        if not self.listed:
            return self._one(value)
        if not items or any(type(item) not in (str, int, float) for item in items):
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
    sections: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    for name, value in load_toml(path, "--config").items():
        if isinstance(value, dict) and name != _PROTOCOL:
            sections[name] = value
        else:
            shared[name.replace("-", "_")] = value
    by_command = _by_command(path, sections, commands)
    for name, section in by_command.items():
        _read(path, section, name, commands)
    return _read(path, shared | by_command.get(command, {}), command, commands)


def load_toml(path: Path, option: str) -> dict[str, Any]:
    """Return what a TOML file holds.

    Args:
        path: the file.
        option: which names it, for messages.

    Raises:
        MissingFileError: there is no such file.
        OptionError: it is no TOML, or cannot be read.
    """
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))  # some editors write a mark in front
    except FileNotFoundError:
        raise MissingFileError(f"{option} {path}: no such file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{option} {path}: not TOML ({error}).") from None
    except OSError as error:
        reason = error.strerror or error
        raise OptionError(f"{option} {path}: cannot be read ({reason}).") from None


def _by_command(path: Path, sections: Mapping[str, Any], commands: Commands) -> dict[str, Any]:
    """Return the sections by command: ``[cache-ls]`` is that of ``cache ls``.

    Raises:
        OptionError: a section is of no command.
    """
    named = {_section(command): command for command in commands}
    by_command = {}
    for name, section in sections.items():
        if name not in named:
            raise OptionError(
                f"{path}: section [{name}] is of no command.{nearest(name, named)} A section "
                "is named after a command, such as [train] or [cache-ls]."
            )
        by_command[named[name]] = {key.replace("-", "_"): value for key, value in section.items()}
    return by_command


def _section(command: str) -> str:
    return command.replace(" ", "-")


def _read(path: Path, table: Mapping[str, Any], command: str, commands: Commands) -> dict[str, Any]:
    """Return the values of a table by parameter.

    Raises:
        OptionError: a key is none of the command's or is to be typed, or its value has another
            type.
    """
    settings, options = commands[command], {}
    for key, value in table.items():
        if key in _TYPED_ALONE:
            raise OptionError(
                f"{path}: {key} is taken from no file, which may be another's: type "
                f"{flag(key)} on the command line, or leave it out."
            )
        if key not in settings:
            raise OptionError(f"{path}: {_unknown(key, command, commands)}")
        try:
            options[settings[key].parameter] = settings[key].read(value)
        except ValueError:
            expected = settings[key].words
            raise OptionError(f"{path}: {key} must be {expected}; found {_shown(value)}.") from None
    return options


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


def apply_config(context: Any) -> None:
    """Let the file of ``--config``, if one was given, say what is not typed.

    Args:
        context: of the command that is about to read its words.

    Raises:
        MissingFileError: there is no such file.
        OptionError: see `read_config`.
    """
    root = context.find_root()
    if root.params.get("config") is None:
        return
    commands = {name: _settings(command) for name, command in _commands(root.command)}
    options = read_config(root.params["config"], command_words(context), commands)
    log_file = options.pop(_LOG_FILE, None)
    if log_file is not None and root.params[_LOG_FILE] is None:
        log_to(Path(log_file))
    context.default_map = options


def command_words(context: Any) -> str:
    """Return a command's words, without the program's: ``extract``, or ``cache ls``."""
    before = [] if context.parent is None else [command_words(context.parent)]
    return " ".join([*before, context.info_name]).strip() if before else ""


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command, and its words."""
    for name, command in group.commands.items():
        words = f"{before} {name}".strip()
        if hasattr(command, "commands"):
            yield from _commands(command, words)
        else:
            yield words, command


def _settings(command: Any) -> dict[str, Setting]:
    """Return what a file may set of a command, by key: flags without dashes, or arguments."""
    settings = {_LOG_FILE: Setting(parameter=_LOG_FILE, type=str)}
    for name, hint, info in parameters_of(command.callback.__wrapped__):  # as typer was given it
        settings[_key(name, info)] = _setting(name, hint, isinstance(info, OptionInfo))
    return settings


def parameters_of(command: Callable[..., Any]) -> Iterator[tuple[str, Any, ParameterInfo | None]]:
    """Yield the parameters of a command: name, type, and what was declared for typer."""
    hints = get_type_hints(command, include_extras=True)
    for name in inspect.signature(command).parameters:
        annotated = get_origin(hints[name]) is Annotated
        hint, *about = get_args(hints[name]) if annotated else [hints[name]]
        yield name, hint, next((info for info in about if isinstance(info, ParameterInfo)), None)


def _key(name: str, info: ParameterInfo | None) -> str:
    """Return the key of a parameter: of ``--all`` it is ``all``, whatever its name in Python."""
    if not isinstance(info, OptionInfo):
        return name
    # typer keeps the first declaration as the default
    declared = [str(text) for text in (info.default, *(info.param_decls or ()))]
    flags = [text.partition("/")[0] for text in declared if text.startswith("--")]
    return (flags[0] if flags else name).removeprefix("--").replace("-", "_")


def _setting(name: str, hint: Any, is_option: bool) -> Setting:
    union = get_origin(hint) in (Union, UnionType)
    plain = next(part for part in get_args(hint) if part is not type(None)) if union else hint
    repeated = get_origin(plain) is list
    item = get_args(plain)[0] if repeated else plain
    kind = item if item in (bool, int, float) else str
    listed = is_option and item is str and not repeated
    return Setting(parameter=name, type=kind, repeated=repeated, listed=listed)
