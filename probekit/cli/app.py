"""The typer application: commands, their help, exit codes and error texts.

Exit codes: 0 done, 1 a clear error, 2 wrong usage, 130 interrupted (and resumable).
"""

import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from probekit.base.fingerprint import unchecked
from probekit.base.installation import unmet_requirements
from probekit.base.markup import spelled_out
from probekit.base.plugins import trusting
from probekit.base.registry import Panel
from probekit.cli import (
    cache,
    cache_exchange,
    catalogue,
    layer_commands,
    page,
    record_reading,
    saved_runs,
    train,
)
from probekit.cli.arguments import offer_completion
from probekit.cli.config_option import apply_config, command_words
from probekit.cli.output import end_messages, log_to, start_messages
from probekit.errors import ProbekitError

logger = logging.getLogger("probekit")

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
            if (file := ctx.find_root().params.get("config")) is not None:
                error.message = f"{error.message} (what is not typed is from {file})"  # type: ignore[attr-defined]
            raise

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
    """A group of commands whose help does not cut their first sentences."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with the first sentence of its help."""
        commands = self.commands.items()
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(sys.maxsize)) for name, command in commands]
            )


def _everywhere_first(words: list[str]) -> list[str]:
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


_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)|errno = (\d+)")
_RESUMABLE = (
    *("extract", "train", "sweep", "depth", "demo"),
    *("cache copy", "cache convert", "cache import", "cache merge", "cache push", "cache pull"),
)


class Commands(Group):
    """Turn errors into one line on stderr and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let the options of all commands stand anywhere on the line."""
        return super().parse_args(ctx, _everywhere_first(args))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; ``--debug`` lets the traceback through."""
        try:
            return super().invoke(ctx)
        except (USAGE, typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as interrupt:
            if sys.stderr.isatty():  # where ^C stands
                typer.echo(err=True)
            resume = " What is finished is kept: run the same command again to resume."
            logger.error("interrupted.%s", resume * (ctx.meta.get(COMMAND) in _RESUMABLE))
            raise typer.Exit(130) from interrupt
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            logger.error("error: %s", _one_line(error))
            raise typer.Exit(1) from error
        finally:
            end_messages()


def _one_line(error: Exception) -> str:
    text = spelled_out(" ".join(str(error).splitlines()))
    if isinstance(error, ProbekitError):
        return text
    if type(error).__name__ == "OutOfMemoryError":  # of torch, which is not imported here
        return (
            f"the device's memory is full ({text[:200]}). Give it less at a time: a smaller "
            "--batch-tokens when extracting, fewer batch_tokens in the --protocol when the model "
            "learns, fewer --workers when training from the cache."
        )
    where, reason = "", None
    if isinstance(error, OSError) and error.strerror:
        where, reason = f"{error.filename}: " if error.filename else "", error.strerror
    elif number := _SYSTEM_ERROR.search(text):  # of a library that hides the system's own error
        reason = os.strerror(int(number[1] or number[2]))
    if reason is not None:
        return (
            f"{where}{reason}. The file system refuses: look at the disk, or the network that it "
            "is on. What is finished is kept."
        )
    if unmet := unmet_requirements():
        lacks = ", ".join(f"{name} (found: {has or 'none'})" for name, has in unmet.items())
        return (
            f"{type(error).__name__}: {text[:300]}. Packages that probekit needs are missing or "
            f"of another version: {lacks}. Run `pip install {shlex.join(unmet)}`."
        )
    return (
        f"unexpected {type(error).__name__}: {text[:300]}. This may be a fault of probekit: run "
        "the command again with --debug, and report what it prints."
    )


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Cache every layer of a frozen transformer once; probe it from the cache.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from probekit.version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _configure(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No messages, no bars.")] = False,
    trust_plugins: Annotated[
        bool,
        typer.Option(
            "--trust-plugins",
            help="Import plug-ins that records and saved heads name; it runs whatever lies there.",
        ),
    ] = False,
    no_check: Annotated[
        bool,
        typer.Option("--no-check", help="Do not compare rows of the cache with their checksums."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Take the command's options from here; those on the command line go before.",
        ),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option("--log-file", help="Append all messages here too, each with its time."),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    # The Hub's client notes each attempt at a download; the error at the end says what counts.
    os.environ.setdefault("HF_HUB_VERBOSITY", "debug" if debug else "error")
    start_messages(debug=debug, quiet=quiet)
    if log_file is not None:
        log_to(log_file)
    ctx.with_resource(trusting(trust_plugins))
    ctx.with_resource(unchecked(no_check))


_COMMANDS: dict[str, Callable[..., object]] = {
    "extract": cache.extract,
    "train": train.train,
    "sweep": train.sweep,
    "depth": train.depth,
    "suite": train.suite,
    "predict": saved_runs.predict,
    "plot": record_reading.plot,
    "table": record_reading.table,
    "compare": record_reading.compare,
    "export": saved_runs.export,
    "merge": saved_runs.merge,
    "card": saved_runs.card,
    "audit": train.audit,
    "report": page.report,
    "geometry": layer_commands.geometry,
    "structure": layer_commands.structure,
    "lens": layer_commands.lens,
    "overthinking": record_reading.overthinking,
    "exit": record_reading.exit_early,
    "tasks": catalogue.tasks,
    "heads": catalogue.heads,
    "demo": catalogue.demo,
}
_OF_CACHE: dict[str, Callable[..., object]] = {
    "ls": cache.list_entries,
    "info": cache.info,
    "verify": cache.verify,
    "merge": cache.merge,
    "rm": cache.rm,
    "path": cache.path,
    "copy": cache_exchange.copy,
    "convert": cache_exchange.convert,
    "import": cache_exchange.import_entries,
    "push": cache_exchange.push,
    "pull": cache_exchange.pull,
}
for _name, _command in _COMMANDS.items():
    app.command(_name, cls=Command)(_command)
for _name, _command in _OF_CACHE.items():
    cache.app.command(_name, cls=Command)(_command)
app.add_typer(cache.app, name="cache", cls=Group)
offer_completion([app, cache.app])


def main() -> None:
    """Run the command line (the ``probekit`` script)."""
    # Before torch is loaded: threads that wait sleep instead of spinning. Spinning gains some 15 %
    # on an idle machine, and makes two processes that share two cores three times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # A scheduler that takes the machine back asks so: what is finished is kept, as by Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
