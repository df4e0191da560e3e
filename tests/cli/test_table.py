"""``probekit table``: what records hold, as text, without training."""

import itertools

import pytest

from probekit.results import append_record, load_records
from probekit.results.tables import STYLES, depth_table, score_table, weights_table
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
