"""Names of strangers stay text: in tables of every style, and in messages."""

import csv
import io

import pytest

from probekit.results import append_record
from tests.cli.console import done, run
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


def test_a_name_stays_in_its_line(file):
    append_record(file, make_record(task="two\r\nlines", model="other"))
    assert r"two\r\nlines" in done("table", file).out


def test_no_message_obeys_a_name(file):
    append_record(file, make_record(task=EVIL, seed=1, model="other"))
    outcome = run("table", file, "--columns", "shots")
    assert outcome.code == 1 and "\x1b" not in outcome.err and "\u202e" not in outcome.err
