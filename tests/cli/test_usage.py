"""What the command line says of itself, and of words it does not understand."""

import errno
import re

import pytest
import torch
import typer.main

from probekit import __version__
from probekit.base.registry import Panel
from probekit.cli import app
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused, run

COMMANDS = (
    *("extract", "train", "sweep", "depth", "predict", "plot", "report", "export", "cache"),
    *("tasks", "heads"),
)
ROOT = typer.main.get_command(app)
COMMAND_OF = {
    name: command
    for group in (ROOT, ROOT.commands["cache"])
    for name, command in group.commands.items()
    if not hasattr(command, "commands")
}
IN_CACHE = ("ls", "info", "verify", "rm", "path", "push", "pull", "import")


def test_version():
    assert done("--version").out == f"{__version__}\n"


@pytest.mark.parametrize(
    "words",
    [(), *((name,) for name in (*COMMANDS, "demo")), *(("cache", name) for name in IN_CACHE)],
    ids=" ".join,
)
def test_help(words):
    outcome = done(*words, "-h" if words else "--help")
    assert outcome.out.startswith("Usage: ")
    assert outcome.err == ""


@pytest.mark.parametrize("words", [(), ("cache",)], ids=" ".join)
def test_help_lists_every_command_with_a_whole_sentence(words):
    group = ROOT.commands["cache"] if words else ROOT
    shown = " ".join(done(*words, "--help").out.split())
    for name, command in group.commands.items():
        first = " ".join(command.help.split()).split(". ")[0].rstrip(".")
        assert f" {name} {first}." in shown


@pytest.mark.parametrize("name", COMMAND_OF)
def test_help_cuts_no_line_at_80_columns(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    group = () if name in ROOT.commands and ROOT.commands[name] is COMMAND_OF[name] else ("cache",)
    shown = done(*group, name, "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    helps = [COMMAND_OF[name].help, *(one.help for one in COMMAND_OF[name].params)]
    for text in helps:  # a line may end at a hyphen
        assert "".join((text or "").split()) in "".join(shown.split())


@pytest.mark.parametrize("name", COMMAND_OF)
def test_few_options_stand_first(name):
    options = [one for one in COMMAND_OF[name].params if one.param_type_name == "option"]
    first = [one.name for one in options if one.rich_help_panel in (None, Panel.FIRST)]
    assert len(first) <= 10, f"{first}: show the new one in another Panel"


@pytest.mark.parametrize("name", ["extract", "sweep", "geometry", "plot"])
def test_help_has_its_options_in_panels(name):
    text = done(name, "--help").out
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert titles[:2] == ["Arguments", "Options"]
    assert titles[1:] == [title for title in Panel if title in titles]
    for option in COMMAND_OF[name].params:
        if option.param_type_name == "option":
            section = text.split(f"\n{option.rich_help_panel or Panel.FIRST}:\n")[1]
            assert option.opts[-1] in section.split("\n\n")[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("extrat", "m", "t"), "No such command 'extrat'"),
        (("extract",), "Missing argument 'MODEL'"),
        (("extract", "m", "conll", "--formt", "zarr"), "No such option: --formt"),
        (("extract", "m", "conll", "--limit", "ten"), "Invalid value for '--limit'"),
        (("train", "m", "conll", "--seeds", "two"), "Invalid value for '--seeds'"),
        (("plot", "weights"), "Missing argument 'RUNS"),
    ],
)
def test_wrong_usage_exits_with_2(words, message):
    outcome = run(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Usage: ")
    assert message in outcome.err


@pytest.mark.parametrize("words", [(), ("cache",)])
def test_no_command_shows_the_help_as_wrong_usage(words):
    outcome = run(*words)
    assert outcome.code == 2
    assert "Commands:" in outcome.err


def test_debug_lets_the_traceback_through_wherever_it_stands():
    for words in (("--debug", "train", "m", "conll"), ("train", "m", "conll", "--debug")):
        outcome = run(*words)
        assert outcome.code == 1
        assert "no entry of m conll" in str(outcome.raised)
        assert not outcome.err.startswith("error: ")


def test_quiet_is_quiet_wherever_it_stands(bert, corpus, here):
    for words in (("-q", "extract"), ("extract", "--quiet")):
        assert done(*words, bert, corpus, *FLOAT32, "--cache", here / str(len(words[0]))).err == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            torch.OutOfMemoryError("CUDA out"),
            "the device's memory is full (CUDA out). Give it less",
        ),
        (RuntimeError("first\nsecond"), "unexpected RuntimeError: first second. This may be a fau"),
        (OSError(errno.EIO, "gone", "c/b"), "c/b: gone. The file system refuses: look at the disk"),
        (OSError("x (os error 28)"), "No space left on device. The file system refuses: look at "),
    ],
)
def test_what_no_command_expects_is_one_line_too(monkeypatch, error, message):
    def failing(*arguments, **options):
        raise error

    monkeypatch.setattr("probekit.extraction.maintenance.list_cache", failing)
    assert refused("cache", "ls").startswith(message)
