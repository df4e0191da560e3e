"""``probekit table``: what records hold, as text, without training."""

import json

import pytest

from probekit.base.markup import plain
from probekit.results import append_record, load_records
from probekit.results.tables import (
    STYLES,
    caption,
    depth_table,
    score_table,
    summarise,
    weights_table,
)
from tests.cli.console import done, refused
from tests.results.samples import make_record


@pytest.fixture
def few(here):
    for seed in (0, 1):
        append_record("few.jsonl", make_record("p32", seed, shots=8))
        append_record("few.jsonl", make_record("last", seed, shots=8))
        for depth in (1, 2):
            append_record("deep.jsonl", make_record("last", seed, depth=depth))
    return ["few.jsonl", "deep.jsonl"]


def test_scores_are_those_of_the_library(few):
    records = load_records(few[:1])
    for style in STYLES:
        printed = done("table", few[0], "--style", style).out
        assert printed.splitlines() == score_table(records).text(style).splitlines()
    below = caption(summarise(records))
    assert done("table", few[0]).out.endswith(f"\n\n{below}\n")
    html = done("table", few[0], "--style", "html").out
    assert f'<p class="note">{plain(below)}</p>' in html
    lines = done("table", *few, "--style", "jsonl").out.splitlines()
    assert [json.loads(line)["seeds"] for line in lines] == [[0, 1]] * 4


def test_other_scores_on_request(here):
    for seed, loss in ((0, 0.5), (1, 0.25)):
        scores = {"dev/loss": loss, "dev/ece": 0.125, "test/loss": 2 * loss, "dev/f1/PER": 0.5}
        append_record("r.jsonl", make_record("last", seed, shots=8, scores=scores))
    append_record("r.jsonl", make_record("p32", 0, shots=8))
    plain = done("table", "r.jsonl").out
    assert "loss" not in plain
    header, _, last, p32 = done("table", "r.jsonl", "--also", "loss,ece").out.splitlines()[:4]
    titles = [title for title in header.split("  ") if title.strip()]
    assert [title.strip() for title in titles[6:9]] == ["dev loss", "test loss", "dev ece (%)"]
    assert "0.3750 ± 1.5883" in last and "0.7500 ± 3.1766" in last and "12.50  " in last
    assert p32.split().count("-") == 3
    one = done("table", "r.jsonl", "--also", "test/loss").out.splitlines()[0]
    assert "test loss" in one and "dev loss" not in one
    assert "dev f1/PER (%)" in done("table", "r.jsonl", "--also", "f1/PER").out
    (row, _) = done("table", "r.jsonl", "--style", "jsonl").rows
    assert row["beside"]["test/loss"]["mean"] == 0.75 and "dev/f1/PER" not in row["beside"]


@pytest.mark.parametrize("split", ["dev", "test"])
def test_depths_have_a_row_each(few, split):
    records = load_records(few)
    rows = summarise([record for record in records if record.depth is not None])
    printed = done("table", *few, "--of", "depth", "--split", split).out
    best = "best on dev: layer 2; ~ within noise of it: no other (paired over 2 seeds)\n"
    assert printed == depth_table(records, split).text()
    assert printed.endswith(f"\n\n{best}{caption(rows)}\n")


def test_weights_and_conditions(few):
    records = [record for record in load_records(few) if record.head == "p32"]
    printed = done("table", *few, "--of", "weights", "--where", "head=p32").out
    first, second = (record.weights for record in records)
    gap = sum(abs(first[layer] - second[layer]) for layer in first) / 2
    apart = f"p32: seeds are {gap:.3f} apart\n"
    meaning = "(distances are half the sum of absolute differences: 0 the same, 1 disjoint)\n"
    assert printed == weights_table(records).text() and f"\n\n{apart}{meaning}" in printed
    assert " weight of each layer after the softmax; mean ± half width of the 95 %" in printed
    raw = done("table", *few, "--of", "weights", "--where", "head=p32", "--raw").out
    assert raw == weights_table(records, raw=True).text() and "before the softmax" in raw


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--of", "layers"),
            "unknown table 'layers'. Choose from: ablation, depth, initial, scores, shares, "
            "weights.",
        ),
        (
            ("--style", "latx"),
            "unknown table style 'latx'. Did you mean 'latex'? Choose from: csv, html, jsonl, la",
        ),
        (("--raw",), "--raw: a table of scores has no such option; leave it out."),
        (("--split", "test"), "--split: a table of scores has no such option; leave it out."),
        (("--of", "depth", "--split", "tset"), "unknown split 'tset'. Did you mean 'test'?"),
        (("--of", "depth", "--columns", "shots"), "--columns: a table of depth has no such op"),
        (("--of", "weights", "--best-on", "dev"), "--best-on: a table of weights has no such"),
        (("--columns", "shot"), "unknown option 'shot'. Did you mean 'shots'?"),
        (("--columns", "lr"), "--columns lr: lr is '0.002' in each of 8 records, so that there"),
        (("--columns", "shots", "--split", "tset"), "unknown split 'tset'. Did you mean 'test'?"),
        (("--best-on", "test"), "--best-on test: options are chosen on dev, so that test is left"),
        (
            ("--best-on", "dev", "--verdicts", "--split", "dev"),
            "--best-on dev with verdicts on dev: what was chosen for its dev score is higher there",
        ),
        (("--against", "crf"), "no reference to compare with: no records with head=crf; head is"),
        (("--of", "depth", "--where", "shots=8"), "no records with a depth and a dev best s"),
        (("--where", "head=crf"), "no records with head=crf; head is "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_printed(few, words, message):
    assert refused("table", *few, *words).startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--also", "ece"), "--also ece: no record holds it. Regressions have a loss alone, and "),
        (("--also", "los"), "--also los: no record has such a score; choose from: f1/PER."),
        (("--of", "depth", "--also", "loss"), "--also: a table of depth has no such option; "),
    ],
)
def test_scores_that_no_record_holds(here, words, message):
    append_record("r.jsonl", make_record("last", depth=1, scores={"dev/f1/PER": 0.5}))
    assert refused("table", "r.jsonl", *words).startswith(message)


def test_depths_without_test_scores(here):
    append_record("deep.jsonl", make_record("last", depth=1, test_score=None))
    message = refused("table", "deep.jsonl", "--of", "depth", "--split", "test")
    assert message.startswith("none of 1 records has a test score; extract the test split")


def test_runs_that_diverged_are_counted(here):
    for seed in (0, 1):
        append_record("r.jsonl", make_record("p32", seed, depth=2, diverged=seed == 1))
    assert "1 of 2  " in done("table", "r.jsonl").out
    append_record("r.jsonl", make_record("p32", 2, depth=2, weights={}, diverged=True))
    text = done("table", "r.jsonl", "--of", "weights").out
    assert text.endswith(" 2 of 3 runs diverged.\n")
    for of in ("scores", "depth"):
        assert done("table", "r.jsonl", "--of", of).out.endswith(" 2 of 3 runs diverged.\n")


def test_asked_of_scores_everything_at_once(here):
    for head, score in (("last", 0.5), ("p32", 0.7)):
        for shots in (8, 16):
            for lr in (0.1, 0.2):
                for seed in range(6):
                    noise = seed * len(head) % 5 / 1000
                    append_record(
                        "r.jsonl",
                        make_record(
                            head, seed, shots=shots, lr=lr, diverged=False,
                            eval_score=score + lr / 10, test_score=score + noise + seed / 500,
                        ),
                    )  # fmt: skip
    words = ("table", "r.jsonl", "--best-on", "dev", "--columns", "shots", "--verdicts")
    lines = done(*words, "--where", "shots=8,16").out.splitlines()
    assert lines[0].split() == ["head", "8", "shots", "16", "shots"]
    assert [line.split()[0] for line in lines[2:4]] == ["last", "p32"]
    assert lines[5].startswith("chosen on dev, by the mean over seeds: lr (2 settings each); test")
    arrows = "\N{UPWARDS ARROW} \N{DOWNWARDS ARROW}"
    assert lines[6] == f"{arrows} test higher or lower than last on the same data (5 %)"
    assert "all 2 corrected together (Holm 1979)" in lines[7]
    assert lines[-1].startswith("test; conll ner, decoder linear: span F1 (%)")
    csv = done(*words, "--style", "csv").out.splitlines()
    assert csv[0] == "head,8 shots,8 shots half width,16 shots,16 shots half width"
    latex = done(*words, "--style", "latex").out
    assert latex.index("\\begin{table}") < latex.index("\\toprule") < latex.index("chosen on dev")
    rows = done(*words, "--style", "jsonl").rows
    assert {(row["head"], row["shots"]) for row in rows} == {
        (head, shots) for head in ("last", "p32") for shots in (8, 16)
    }
    markdown = done(*words, "--style", "markdown").out
    assert markdown.startswith("| head | 8 shots | 16 shots |\n| :--- | ---: | ---: |\n")
