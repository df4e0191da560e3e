"""``report``: one HTML file of the records in files and folders."""

import json

import pytest

from tests.cli.conftest import entry_of
from tests.cli.console import done, refused
from tests.page.samples import PageReader


@pytest.fixture
def page(records, entries, here):
    outcome = done("report", records, "--cache", entries["zarr"], "--samples", "100")
    assert outcome.out.startswith("report.html (")
    return PageReader((here / "report.html").read_text(encoding="utf-8")).data


def test_it_shows_what_the_runs_hold(page):
    assert {one["section"] for one in page["figures"]} >= {"depth", "weights", "amount", "exit"}
    assert [one["along"] for one in page["grids"]] == ["depth"]
    assert {one["split"] for one in page["entries"]} == {"train", "dev"}
    assert all("match their checksums" in one["verified"] for one in page["entries"])
    assert page["commands"][0].startswith("probekit extract ")


def test_a_damaged_entry_is_said(records, cache):
    chunk = entry_of(cache, "train") / "features.zarr" / "words" / "c.0.1.0"
    chunk.write_bytes(bytes(byte ^ 1 for byte in chunk.read_bytes()))
    done("report", records, "--samples", "100", "--examples", "0")
    with open("report.html", encoding="utf-8") as file:
        entries = PageReader(file.read()).data["entries"]
    wrong = [one for one in entries if not one["whole"]]
    assert len(wrong) == 1 and wrong[0]["verified"].startswith("damaged: ")


def test_entries_that_are_elsewhere_are_said(records, here):
    done("report", records, "--where", "head=p32", "--title", "p32 alone", "--no-verify")
    page = PageReader((here / "report.html").read_text(encoding="utf-8")).data
    assert page["title"] == "p32 alone"
    assert [one["verified"] for one in page["entries"]] == ["not in the cache that was looked at"]
    assert page["grids"] == []
    assert any("--predictions" in one for one in page["absent"])


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


def test_an_empty_file_is_refused(here):
    (here / "runs.jsonl").write_text("")
    assert "a report needs records of finished runs" in refused("report", "runs.jsonl")


def test_a_record_keeps_its_json(records):
    """The sample is one line per record, so that a refused report has not changed it."""
    assert all(json.loads(line) for line in records.read_text().splitlines())
