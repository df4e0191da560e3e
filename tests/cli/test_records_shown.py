"""``probekit table``, ``plot``, ``report``: what records show, and what cannot be shown."""

import itertools

import pytest

from probekit.results import append_record, load_records
from probekit.results.tables import STYLES, depth_table, score_table, weights_table
from tests.cli.console import done, refused
from tests.page.samples import PageReader
from tests.results.samples import make_record


@pytest.fixture
def few(here):
    for seed in (0, 1):
        append_record("few.jsonl", make_record("p32", seed, shots=8))
        append_record("few.jsonl", make_record("last", seed, shots=8))
        for depth in (1, 2):
            append_record("deep.jsonl", make_record("last", seed, depth=depth))
    return ["few.jsonl", "deep.jsonl"]


@pytest.mark.parametrize("style", STYLES)
def test_tables_are_those_of_the_library(few, style):
    records = load_records(few)
    deep = [record for record in records if record.depth is not None]
    heads = [record for record in records if record.head == "p32"]
    weights = ("--of", "weights", "--where", "head=p32")
    for words, table in (
        ((), score_table(records)),
        (("--of", "depth", "--split", "test"), depth_table(deep, "test")),
        (weights, weights_table(heads)),
        (("--of", "raw", *weights[2:]), weights_table(heads, raw=True)),
    ):
        printed = done("table", *few, *words, "--style", style).out
        assert printed.splitlines() == table.text(style).splitlines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--of", "layers"), "unknown table 'layers'. Choose from: ablation, depth, initial, raw"),
        (("--style", "latx"), "unknown table style 'latx'. Did you mean 'latex'? Choose from: "),
        (("--split", "test"), "table --of scores takes no --split. Leave it out."),
        (("--of", "raw", "--split", "test"), "table --of raw takes no --split."),
        (("--of", "depth", "--columns", "shots"), "table --of depth takes no --columns."),
        (("--of", "weights", "--best-on", "dev"), "table --of weights takes no --best-on."),
        (("--of", "depth", "--also", "loss"), "table --of depth takes no --also."),
        (
            ("--best-on", "dev", "--verdicts", "--split", "dev"),
            "--best-on dev with verdicts on dev: what was chosen for its dev score is higher there",
        ),
        (("--also", "ece"), "--also ece: no record holds it. Regressions record only a loss, and "),
        (("--also", "los"), "--also los: no record has such a score; choose from: "),
        (("--where", "head=crf"), "no records with head=crf; head is "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_printed(few, words, message):
    assert refused("table", *few, *words).startswith(message)


def test_asked_of_scores_everything_at_once(here):
    for head, score in (("last", 0.5), ("p32", 0.7)):
        for shots, lr, seed in itertools.product((8, 16), (0.1, 0.2), range(6)):
            test = score + seed * len(head) % 5 / 1000 + seed / 500
            scores = {"eval_score": score + lr / 10, "test_score": test, "diverged": False}
            append_record("r.jsonl", make_record(head, seed, shots=shots, lr=lr, **scores))
    words = ("table", "r.jsonl", "--best-on", "dev", "--columns", "shots", "--verdicts")
    lines = done(*words, "--where", "shots=8,16").out.splitlines()
    assert lines[0].split() == ["head", "8", "shots", "16", "shots"]
    assert [line.split()[0] for line in lines[2:4]] == ["last", "p32"]
    assert lines[5].startswith(
        "chosen on dev, by the mean over seeds: lr (2 settings each); report"
    )
    arrows = "\N{UPWARDS ARROW} \N{DOWNWARDS ARROW}"
    assert lines[6] == f"{arrows} test higher or lower than last on the same data (5 %)"
    assert "all 2 corrected together (Holm 1979)" in lines[7]
    rows = done(*words, "--style", "jsonl").rows
    expected = set(itertools.product(("last", "p32"), (8, 16)))
    assert {(row["head"], row["shots"]) for row in rows} == expected


def test_a_folder_of_records_with_a_look(here):
    for task, seen in (("b", 9), ("a", 90)):
        record = make_record(task=task, seen={"examples": seen})
        append_record(here / "runs" / "model" / f"{task}.jsonl", record)
    look = ("--width", "3.3", "--title", "Tasks", "-o", "w.svg")
    assert done("plot", "weights", "runs", *look).out == "w.svg\n"
    assert 'width="237.6pt"' in (here / "w.svg").read_text()  # 3.3 of 72
    assert done("table", "runs").out.count("p32") == 2


def test_the_name_follows_the_kind(records, here):
    where = ("--where", "head=p32", "--where", "shots=8")
    assert done("plot", "weights", records, *where).out == "weights.png\n"
    assert (here / "weights.png").exists()


@pytest.mark.parametrize(
    ("option", "taken"),
    [
        (("--split", "banana"), "depth, points, fewshot, fraction, classes, overthinking, exit"),
        (("--of", "shares"), "weights, learning"),
    ],
)
def test_options_of_other_figures(records, option, taken):
    message = refused("plot", "confusion", records, *option)
    assert message == (f"plot confusion takes no {option[0]}. Leave it out; it works with {taken}.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("weigths",), "unknown plot 'weigths'. Did you mean 'weights'? Choose from: attention"),
        (("weights", "-o", "x.gif"), "x.gif: cannot write a figure as '.gif'; choose a name that"),
        (("weights", "--where", "head=crf"), "no records with head=crf; head is "),
        (("fewshot", "--where", "head=last"), "a few-shot curve needs records of at least two"),
        (("depth", "--width", "85"), "a width of 85 inches: give one from 1.5 to 40 inches."),
        (("depth", "--overlay", "mdoel"), "unknown overlay 'mdoel'. Did you mean 'model'? Choose"),
    ],
)
def test_what_cannot_be_drawn(records, here, words, message):
    kind, *options = words
    assert refused("plot", kind, records, *options).startswith(message)
    assert list(here.iterdir()) == []


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
