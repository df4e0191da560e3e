"""What the command line says of itself, and of words it does not understand."""

import pytest
import torch

from probekit import __version__
from tests.cli.console import done, refused, run

COMMANDS = (
    "extract",
    "train",
    "sweep",
    "depth",
    "predict",
    "plot",
    "report",
    "cache",
    "tasks",
    "heads",
)
IN_CACHE = ("ls", "info", "verify", "rm", "path")


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
    assert "--batch-tokens" in message and "--memory" in message


def test_a_fault_of_the_program_is_one_line_too(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("probekit.extraction.maintenance.list_cache", broken)
    message = refused("cache", "ls")
    assert message.startswith("unexpected RuntimeError: first second. ")
    assert "--debug" in message


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
