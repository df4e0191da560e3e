"""``report``: one HTML file of the records in files and folders."""

import pytest

from tests.cli.console import done, refused
from tests.page.samples import PageReader


@pytest.fixture
def page(records, entries, here):
    outcome = done("report", records, "--cache", entries)
    assert outcome.out.startswith("report.html (")
    return PageReader((here / "report.html").read_text(encoding="utf-8"))


def test_it_shows_what_the_runs_hold(page):
    parts = {"Depth curves", "Layers", "Few examples", "Early exit", "Examples"}
    assert parts <= set(page.texts("nav"))
    assert [one["along"] for one in page.data["grids"]] == ["depth"]
    entries = page.texts("entries")
    assert {"train", "dev"} < set(entries)
    assert entries.count("complete") == 2
    assert page.texts("pre")[0].startswith("probekit extract ")


def test_entries_that_are_elsewhere_are_said(records, here):
    done("report", records, "--where", "head=p32", "--title", "p32 alone")
    page = PageReader((here / "report.html").read_text(encoding="utf-8"))
    assert page.texts("h1") == ["p32 alone"]
    assert page.texts("entries")[-1] == "not in the cache that was looked at"
    assert page.data["grids"] == []
    assert any("--predictions" in text for text in page.texts("absent"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.jsonl",), "none.jsonl: no such file"),
        (("RECORDS", "-o", "none/page.html"), "the folder none does not exist; create it"),
        (("RECORDS", "-o", "RECORDS"), "a report is one HTML file, and this ends in '.jsonl'"),
        (("RECORDS", "--split", "train"), "train"),
        (("RECORDS", "--where", "head=dwatt"), "no records with head=dwatt"),
    ],
)
def test_bad_input_is_refused(records, words, message):
    found = refused("report", *(records if word == "RECORDS" else word for word in words))
    assert message in found
