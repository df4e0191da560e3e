"""What the command line says of itself, of words that it does not understand, and of anybody's."""

import csv
import errno
import io
import re
from xml.etree import ElementTree

import pytest
import torch
import typer.main

from probekit import __version__
from probekit.base.registry import Panel
from probekit.cli import app
from probekit.results import append_record
from tests.cli.conftest import FLOAT32
from tests.cli.console import done, refused, run
from tests.planted import plant_all
from tests.results.samples import make_record

ROOT = typer.main.get_command(app)
COMMAND_OF = {
    name: command
    for group in (ROOT, ROOT.commands["cache"])
    for name, command in group.commands.items()
    if not hasattr(command, "commands")
}


def test_version():
    assert done("--version").out == f"{__version__}\n"


@pytest.mark.parametrize("words", [(), ("extract",), ("cache", "ls")], ids=" ".join)
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


STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
TRAIN = ("train", "planted", "conll", "--head", "last", "--shots", "4", "--l2", "1")


@pytest.fixture
def planted(here):
    return plant_all(here / "cache")


def lines(file):
    """The messages of a log file, each of which begins with its time."""
    found = file.read_text().splitlines()
    assert all(STAMP.match(line) for line in found)
    return [STAMP.sub("", line) for line in found]


def test_what_is_said_is_in_the_file_too(here, planted):
    outcome = done(*TRAIN, "--log-file", "logs/a.log")
    assert lines(here / "logs/a.log") == outcome.err.splitlines()
    assert outcome.err.startswith("[1/1] last, seed 0: dev ")


def test_the_file_goes_on_and_is_not_quiet(here, planted):
    done(*TRAIN, "--log-file", "a.log")
    assert done(*TRAIN, "-q", "--log-file", "a.log").err == ""
    first, where, again, _ = lines(here / "a.log")
    assert first.startswith("[1/1] last, seed 0") and where.startswith("records: ")
    assert again.startswith("1 of 1 runs are recorded")


def test_an_error_is_the_last_line(here, planted):
    outcome = run(*TRAIN, "--label", "none", "--log-file", "a.log")
    assert outcome.code == 1
    assert lines(here / "a.log")[-1] == outcome.err.splitlines()[-1]
    assert outcome.err.startswith("error: ")


def test_a_file_that_cannot_be_written(here, planted):
    outcome = run(*TRAIN, "--log-file", "cache")
    assert outcome.code == 1
    assert outcome.err.startswith("error: --log-file cache: cannot be written (Is a directory)")
    assert not (here / "runs").exists()


EVIL = "\x1b]0;owned\x07\x1b[2J\u202eevil\x9b"


@pytest.fixture
def file(here):
    for task, label in ((f"{EVIL}<b>x</b>", "=1+1"), ("plain", "@SUM(A1)")):
        append_record(here / "r.jsonl", make_record(task=task, label=label, model=f"org/{EVIL}"))
    return here / "r.jsonl"


@pytest.mark.parametrize("style", ["text", "markdown", "html", "latex", "csv"])
def test_no_table_obeys_a_name(file, style):
    out = done("table", file, "--style", style).out
    assert not any(one in out for one in ("\x1b", "\x07", "\u202e", "\x9b"))
    assert r"\x1b" in out or r"textbackslash{}x1b" in out
    assert style in ("text", "csv", "latex") or "<b>" not in out


def test_no_spreadsheet_computes_a_name(file):
    for columns in ((), ("--columns", "label")):
        out = done("table", file, "--style", "csv", *columns).out
        cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
        assert {"'=1+1", "'@SUM(A1)"} <= set(cells)
        assert not any(cell[:1] in ("=", "@", "+") for cell in cells)


@pytest.mark.parametrize("task", ["\t=1+1", "\n=1", " =1+1"])
def test_no_spreadsheet_computes_a_heading(here, task):
    for seed, name in enumerate((task, "plain")):
        append_record(here / "h.jsonl", make_record(seed=seed, task=name))
    out = done("table", here / "h.jsonl", "--style", "csv", "--columns", "task").out
    headings = next(csv.reader(io.StringIO(out)))
    assert not any(one.strip()[:1] == "=" for one in headings)


def test_no_figure_or_page_obeys_a_name(file, here, recwarn):
    done("plot", "weights", file, "-o", "w.svg")
    done("report", file, "-o", "r.html")
    assert not [one for one in recwarn if "Glyph" in str(one.message)]
    for name in ("w.svg", "r.html"):
        text = (here / name).read_text("utf-8")
        assert not any(one in text for one in ("\x1b", "\x07", "\u202e", "\x9b"))
    ElementTree.parse(here / "w.svg")


def test_figures_and_pages_that_nobody_named_replace_their_own_alone(file, here):
    for name, command in {"weights.png": ("plot", "weights"), "report.html": ("report",)}.items():
        done(*command, file)
        done(*command, file)
        (here / name).write_bytes(b"mine, of probekit")
        message = refused(*command, file)
        assert message == f"{name} is there, and probekit did not write it: give another with -o."
        assert (here / name).read_bytes() == b"mine, of probekit"


def test_no_message_obeys_a_name(file):
    append_record(file, make_record(task=EVIL, seed=1, model="other"))
    outcome = run("table", file, "--columns", "shots")
    assert outcome.code == 1 and "\x1b" not in outcome.err and "\u202e" not in outcome.err
