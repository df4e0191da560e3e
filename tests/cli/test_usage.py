"""What the command line says of itself, and of words it does not understand."""

import errno
import os
import re

import pytest
import torch
import typer.main

from probekit import __version__
from probekit.cli import app
from probekit.cli.help_panels import (
    FIRST,
    MOST_FIRST,
    OF_ALL,
    OF_EXTRACT,
    OF_IMPORT,
    in_panels,
)
from tests.cli.console import done, refused, run

COMMANDS = (
    *("extract", "train", "sweep", "depth", "predict", "plot", "report", "export", "cache"),
    *("tasks", "heads"),
)
COMMAND_OF = {
    name: one
    for name, one in typer.main.get_command(app).commands.items()
    if not hasattr(one, "commands")
}
COMMAND_OF["import"] = typer.main.get_command(app).commands["cache"].commands["import"]
NOT_TYPED = {"model", "task", "head", "rates"}
IN_CACHE = ("ls", "info", "verify", "rm", "path", "push", "pull", "import")


def test_version():
    assert done("--version").out == f"{__version__}\n"


@pytest.mark.parametrize(
    "words",
    [(), *((name,) for name in (*COMMANDS, "demo")), *(("cache", name) for name in IN_CACHE)],
    ids=" ".join,
)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(words, option):
    outcome = done(*words, option)
    assert outcome.out.startswith("Usage: ")
    assert outcome.err == ""


def test_help_lists_every_command():
    listed = done("--help").out
    assert all(f"  {name} " in listed for name in (*COMMANDS, "demo"))


def options_of(name):
    """The options of a command by panel, in order."""
    found = in_panels(name, COMMAND_OF[name].params)
    return {
        title: [one.name for one in own] for title, own in found.items() if title != "Arguments"
    }


@pytest.mark.parametrize("name", COMMAND_OF)
def test_the_options_that_matter_first_stand_first(name):
    panels = options_of(name)
    assert len(panels.get("Options", ())) <= MOST_FIRST, (
        f"{panels}: name the new one in FIRST or PANELS of probekit/cli/help_panels.py"
    )
    if name in FIRST:
        assert panels["Options"][: len(FIRST[name])] == list(FIRST[name])


@pytest.mark.parametrize("name", ["extract", "sweep", "geometry", "plot"])
def test_help_has_its_options_in_panels(name):
    panels = options_of(name)
    text = done(name, "--help").out
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert titles == ["Arguments", *panels]
    for title, options in panels.items():
        section = text.split(f"\n{title}:\n")[1].split("\n\n")[0]
        shown = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", section, re.MULTILINE)
        assert [one for one in shown if one != "help"] == [one.replace("_", "-") for one in options]


def test_panels_name_options_that_exist():
    everywhere = {one.name for command in COMMAND_OF.values() for one in command.params}
    # rates are typed as part of --lr
    groups = [*OF_EXTRACT.values(), *OF_IMPORT.values(), *OF_ALL.values()]
    named = {one for names in groups for one in names} - NOT_TYPED
    assert named <= everywhere
    for name, first in FIRST.items():
        assert set(first) <= {one.name for one in COMMAND_OF[name].params}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("extrat", "m", "t"), "No such command 'extrat'"),
        (("extract",), "Missing argument 'MODEL'"),
        (("extract", "m"), "Missing argument 'TASK'"),
        (("extract", "m", "conll", "--formt", "zarr"), "No such option: --formt"),
        (("sweep", "m", "conll", "--hed", "last"), "--head"),
        (("extract", "m", "conll", "--limit", "ten"), "Invalid value for '--limit'"),
        (("train", "m", "conll", "--seeds", "two"), "Invalid value for '--seeds'"),
        (("train", "m", "conll", "--engine", "ray"), "No such option: --engine"),
        (
            ("train", "m", "t", "--evals", "1"),
            "a file: --protocol FILE.toml (docs/reference/protocols.md).\n",
        ),
        (("sweep", "m", "t", "--init-from", "d"), "--init-from is --start DIR."),
        (("finetune", "m", "t"), "finetune is `probekit train --method full`"),
        (("cache", "lst"), "No such command 'lst'"),
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
        assert done(*words, bert, corpus, "--cache", here / str(len(words[0]))).err == ""


def test_a_full_device_is_told_with_what_to_do(monkeypatch):
    def full(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr("probekit.extraction.maintenance.list_cache", full)
    message = refused("cache", "ls")
    assert message.startswith("the device's memory is full (CUDA out of memory. Tried to allocate")
    assert "--batch-tokens" in message and "--workers" in message


def test_a_fault_of_the_program_is_one_line_too(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("probekit.extraction.maintenance.list_cache", broken)
    message = refused("cache", "ls")
    assert message.startswith("unexpected RuntimeError: first second. ")
    assert "--debug" in message


def test_a_failing_disk_is_no_fault_of_the_program(monkeypatch):
    def failing(*arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO), "cache/bert")

    monkeypatch.setattr("probekit.extraction.maintenance.list_cache", failing)
    message = refused("cache", "ls")
    assert message.startswith("cache/bert: Input/output error. The file system refuses")


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [
        ("extract", "conll", "roberta-large"),
        ("extract", "wikiann/de", "org/model"),
        ("train", "demo-ner", "roberta-large"),
        ("sweep", "conll", "./folder"),
        ("depth", "conll", "model.gguf"),
    ],
)
def test_task_and_model_the_wrong_way_round(command, first, second):
    message = refused(command, first, second)
    assert message.startswith(f"{first!r} is a task")
    assert message.endswith(f"The model comes first: write {second} {first}.")
