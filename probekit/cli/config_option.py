"""``--config FILE`` for every command: its options are defaults that the command line overrides."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probekit.base.registry import flag, nearest
from probekit.cli.output import log_to
from probekit.errors import MissingFileError, OptionError

_TYPED_ALONE = frozenset({"trust_remote_code"})
"""Options that must be typed anew every time."""

_LOG_FILE, _PROTOCOL = "log_file", "protocol"
"""An option of all commands, and one whose value may be a table."""

Commands = Mapping[str, Mapping[str, Any]]
"""The parameters of each command, such as ``cache ls``, by the key that a file has for them."""


def apply_config(context: Any) -> None:
    """Make the file of ``--config``, if one was given, the default of what is not typed.

    What stands before all sections is of the command, whichever it is. A section ``[train]`` is of
    that command alone, so that one file serves several.

    Args:
        context: of the command that is about to read its words.

    Raises:
        MissingFileError: there is no such file.
        OptionError: it is no TOML; a key or section is unknown, or a value cannot be used.
    """
    root = context.find_root()
    path = root.params.get("config")
    if path is None:
        return
    everywhere = {p.name: p for p in root.command.params if p.name == _LOG_FILE}
    commands = {
        words: everywhere | {_key(parameter): parameter for parameter in command.params}
        for words, command in _commands(root.command)
    }
    shared: dict[str, Any] = {}
    sections: dict[str, Any] = {}
    for name, value in load_toml(path, "--config").items():
        is_section = isinstance(value, dict) and name != _PROTOCOL
        (sections if is_section else shared)[name] = value
    words = command_words(context)
    of_sections = _read_sections(path, sections, commands)
    options = _read(path, shared, words, commands) | of_sections.get(words, {})
    log_file = options.pop(_LOG_FILE, None)
    if log_file is not None and root.params[_LOG_FILE] is None:
        log_to(Path(log_file))
    context.default_map = options


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


def _read_sections(
    path: Path, sections: Mapping[str, Any], commands: Commands
) -> dict[str, dict[str, Any]]:
    """Return the values of sections by command: ``[cache-ls]`` is that of ``cache ls``.

    Raises:
        OptionError: a section is of no command, or see `_read`.
    """
    named = {_section(words): words for words in commands}
    for name in sections:
        if name not in named:
            raise OptionError(
                f"{path}: no command has the section [{name}].{nearest(name, named)} Name a "
                "section after a command, such as [train] or [cache-ls]."
            )
    return {
        named[name]: _read(path, section, named[name], commands)
        for name, section in sections.items()
    }


def _section(words: str) -> str:
    return words.replace(" ", "-")


def _read(path: Path, table: Mapping[str, Any], words: str, commands: Commands) -> dict[str, Any]:
    """Return the values of a table by parameter, as the command line would have them.

    Raises:
        OptionError: a key is none of the command's or has to be typed, or its value is wrong.
    """
    parameters, options = commands[words], {}
    for name, value in table.items():
        key = name.replace("-", "_")
        if key in _TYPED_ALONE:
            raise OptionError(
                f"{path}: {key} is never read from a file, which may be somebody else's. Type "
                f"{flag(key)} on the command line, or leave it out."
            )
        if key not in parameters:
            raise OptionError(f"{path}: {_unknown(key, words, commands)}")
        parameter = parameters[key]
        is_flag = getattr(parameter, "is_flag", False)
        if is_flag != isinstance(value, bool):
            kind = "true or false" if is_flag else "text, a number or an array of these"
            raise OptionError(f"{path}: {key} must be {kind}; found {value!r:.80}.")
        options[parameter.name] = _typed(parameter, value)
    return options


def _typed(parameter: Any, value: Any) -> Any:
    """Return a value as it is typed: commas between those of an array, but of a repeated option."""
    if isinstance(value, bool) or (isinstance(value, dict) and parameter.name == _PROTOCOL):
        return value
    items = list(map(str, value if isinstance(value, list) else [value]))
    if parameter.nargs == -1 or getattr(parameter, "multiple", False):
        return items
    if parameter.name == "seeds" and isinstance(value, list) and len(items) == 1:
        return f"{items[0]},"  # 5 alone would be five seeds, not seed 5
    return ",".join(items)


def _unknown(key: str, words: str, commands: Commands) -> str:
    """Return what is wrong with a key, and where it belongs or which one is near."""
    having = [f"[{_section(other)}]" for other, known in commands.items() if key in known]
    if having:
        return f"`probekit {words}` has no option {key}: put it below {' or '.join(having[:4])}."
    hint = nearest(key, commands[words])
    return f"unknown key {key!r} for `probekit {words}`.{hint} See `probekit {words} --help`."


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


def _key(parameter: Any) -> str:
    """Return the key of a parameter: of ``--all`` it is ``all``, whatever its name in Python."""
    flags = [text for text in parameter.opts if text.startswith("--")]
    return str(flags[0] if flags else parameter.name).removeprefix("--").replace("-", "_")
