"""What all commands share: help in panels, a config file, and words of earlier versions."""

from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from probekit.base.registry import Panel
from probekit.cli.config_option import apply_config, command_words

USAGE: type[BaseException] = typer.BadParameter.__bases__[0]
"""The error of wrong usage: typer itself reports it, and exits with 2."""

COMMAND = f"{__name__}.command"
"""In a context's ``meta``: the words of the command that runs."""

EVERYWHERE: Mapping[str, bool] = {
    "--config": True,
    "--log-file": True,
    "--debug": False,
    "--quiet": False,
    "-q": False,
    "--trust-plugins": False,
    "--no-check": False,
}
"""Options that may stand anywhere on the line, and whether a value follows them."""

_OF_PROTOCOL = "is stated in a file: --protocol FILE.toml (docs/reference/protocols.md)"
_OF_EXTRACT = (
    "is said to `probekit extract` alone, and its entries keep it. Name the data by its path, or "
    "as `probekit cache ls` does"
)
_MOVED: Mapping[str, str] = {
    **dict.fromkeys(("--batch-size", "--evals", "--optimizer", "--schedule"), _OF_PROTOCOL),
    **dict.fromkeys(("--warmup", "--weight-decay", "--batch-tokens"), _OF_PROTOCOL),
    **dict.fromkeys(("--separator", "--encoding", "--sentences"), _OF_EXTRACT),
    "--skip-unlabelled": _OF_EXTRACT,
    "--init-from": "is --start DIR",
    "--fusion-from": "is --start fusion:DIR",
    "--freeze-fusion": "is --start frozen-fusion:DIR",
    "--restart": "is --overwrite",
    "--address": "is the environment's: RAY_ADDRESS=HOST:PORT",
    "--gpus-per-worker": "is an option of the engine: --engine ray:gpus_per_worker=0.5",
    "--memory": "has no successor: half of what is free is used",
    "finetune": "is `probekit train --method full` (or lora, bitfit, ...; with lists `sweep`)",
}
"""What stands in place of options and commands of earlier versions."""


def _with_successor(error: Any, word: str | None) -> Any:
    """Return an error of usage that says what to type in place of a word."""
    if word is not None and word in _MOVED:
        error.message = f"{error.message.rstrip('.')}. {word} {_MOVED[word]}."
        error.possibilities = ()  # guesses at other words
    return error


class Command(TyperCommand):
    """A command whose help has a paragraph per panel, plain as logs and pipes want it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words, after the config file that stands behind them."""
        ctx.meta[COMMAND] = command_words(ctx)
        if not ctx.resilient_parsing:
            apply_config(ctx)
        try:
            return super().parse_args(ctx, args)
        except USAGE as error:
            raise _with_successor(error, getattr(error, "option_name", None)) from None

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the options of all commands as well."""
        root = ctx.find_root()
        return [
            *super().shell_complete(ctx, incomplete),
            *TyperCommand.shell_complete(root.command, root, incomplete),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by panel."""
        panels: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *Panel)}
        parameters: list[Any] = self.get_params(ctx)
        for parameter in parameters:
            if (record := parameter.get_help_record(ctx)) is not None:
                is_argument = parameter.param_type_name == "argument"
                title = "Arguments" if is_argument else parameter.rich_help_panel
                panels[title or Panel.FIRST].append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Name the options of all commands."""
        named = ", ".join(name for name in EVERYWHERE if name.startswith("--"))
        formatter.write_paragraph()
        formatter.write_text(f"Every command takes {named} too: see `probekit --help`.")


class Group(TyperGroup):
    """A group of commands, which says what stands in place of one of an earlier version."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, and the other words."""
        try:
            return super().resolve_command(ctx, args)
        except USAGE as error:
            raise _with_successor(error, args[0] if args else None) from None


def everywhere_first(words: list[str]) -> list[str]:
    """Return the words of a line, the options of all commands in front.

    ``train bert conll -q -- --debug`` is read as ``-q train bert conll -- --debug``: what stands
    after ``--`` is no option.
    """
    end = words.index("--") if "--" in words else len(words)
    first: list[str] = []
    others: list[str] = []
    typed = iter(words[:end])
    for word in typed:
        name, equals, _ = word.partition("=")
        if name in EVERYWHERE:
            first += [word, *([next(typed, "")] if EVERYWHERE[name] and not equals else [])]
        else:
            others.append(word)
    return [*first, *others, *words[end:]]
