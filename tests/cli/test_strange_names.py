"""Names of strangers stay text: in tables of every style, and in messages."""

import csv
import io
from xml.etree import ElementTree

import pytest

from probekit.results import append_record
from tests.cli.console import done, refused, run
from tests.results.samples import make_record

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
