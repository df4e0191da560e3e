"""Tables mark the rows of runs with a trouble, and say below what it is."""

import json

import pytest

from probekit import plot_weights
from probekit.results.summaries.diagnosis import notes
from probekit.results.summaries.typeset import text_table
from probekit.results.tables import depth_table, score_table, summarise, table, weights_table
from tests.plots.samples import notes_of
from tests.results.samples import make_record


def scored(head, seed=0, **changes):
    options = {"eval_score": 0.5 + seed / 16, "eval_last": 0.5 + seed / 16, "test_score": 0.25}
    return make_record(head, seed, **options | changes)


@pytest.fixture
def records():
    bad = {"diagnosis": {"converged": False, "edge": "strongest"}}
    return [scored("last"), scored("p32"), scored("p32", 1, **bad)]


def test_a_marked_row_as_text(records):
    assert score_table(records).text().splitlines() == [
        "head  shots  seeds             dev    test  params  seconds",
        "----  -----  -----  --------------  ------  ------  -------",
        "last    all      1  50.00           25.00    1,001      1.5",
        "p32     all      2  53.12 ± 39.71*  25.00*   1,004      1.5",
        "",
        "* not converged in 1 of 3 runs (p32); best at the edge of the search (strongest) in "
        "1 of 3 runs (p32)",
        "conll ner, decoder linear: span F1 (%); mean ± half width of the 95 % interval "
        "(Student's t) over 2 seeds; elsewhere none: no stored predictions; run again with "
        "--predictions.",
    ]


def test_a_missing_score_has_no_mark_of_its_own():
    row = scored("p32", select="dev", test_score=None)
    line = table(summarise([row])).splitlines()[2]
    assert line.split() == ["p32", "all", "1", "50.00*", "50.00*", "-", "1,004", "1.5"]
    assert notes([row]) == ["* selected on the reported split"]


@pytest.mark.parametrize(
    ("changes", "columns"),
    [
        ({}, ["dev"]),
        ({"select": "dev", "fitter": "lbfgs", "epochs": None}, ["dev"]),
        ({"select": "cv:5"}, ["dev"]),
        ({"select": "dev"}, ["dev best", "dev last"]),
        ({"eval_last": 0.25}, ["dev best", "dev last"]),
        ({"eval_last": 0.25, "fitter": "lbfgs"}, ["dev best", "dev last"]),
    ],
)
def test_two_columns_only_where_some_run_has_two_dev_scores(changes, columns):
    heading = table(summarise([scored("last"), scored("p32", **changes)])).splitlines()[0]
    assert [part.strip() for part in heading.split("  ") if "dev" in part] == columns
    same = {name: one for name, one in changes.items() if name != "eval_last"}
    deep = [scored("last", depth=1, **same), scored("last", depth=2, **changes)]
    heading = depth_table(deep, "dev").text().splitlines()[0]
    expected = ["layer, dev"] if columns == ["dev"] else ["last: dev best", "last: dev last"]
    assert [part.strip() for part in heading.split("  ") if "dev" in part] == expected


def deep_records():
    scores = {0: 0.25, 1: 0.75, 2: 0.5, 3: 0.75}
    return [
        scored(
            "last", depth=depth, eval_score=score, eval_last=score, test_score=1 - score,
            diagnosis={"one_class": depth in (0, 1)},
        )
        for depth, score in scores.items()
    ]  # fmt: skip


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_table_by_depth_marks_the_best_of_dev_and_troubles(split):
    lines = depth_table(deep_records(), split).text().splitlines()
    shown = [25, 75, 50, 75] if split == "dev" else [75, 25, 50, 25]
    cells = [f"{score}.00{mark}" for score, mark in zip(shown, ["*", "~*", "", "~"], strict=True)]
    assert [line.split()[-1] for line in lines[2:6]] == cells
    assert lines[7:9] == [
        "best on dev: layer 1; ~ within noise of it: 1, 3 (exact ties only)",
        "* one class predicted in 2 of 4 runs (last, depth 0; last, depth 1)",
    ]
    assert len({line.index(".") for line in lines[2:6]}) == 1, "points stand one below the other"


def test_depths_as_markdown_and_json_lines():
    text = depth_table(deep_records(), "dev").text("markdown")
    assert "| 1 | 75.00~* |" in text and "| 3 | 75.00~ |" in text
    assert "\n\nbest on dev: layer 1; \\~ within" in text and "\n\n\\* one class" in text
    lines = depth_table(deep_records(), "dev").text("jsonl").splitlines()
    rows = list(map(json.loads, lines))
    assert [row["marks"] for row in rows] == [["one class predicted"]] * 2 + [[], []]
    assert [row["best"] for row in rows] == [False, True, False, False]
    assert [row["within_noise"] for row in rows] == [False, True, False, True]


def test_every_curve_has_its_own_best():
    records = [*deep_records(), *(scored("p32", depth=d, eval_score=d / 4) for d in range(4))]
    lines = depth_table(records).text().splitlines()
    assert "last: best on dev: layer 1; ~ within noise of it: 1, 3 (exact ties only)" in lines
    assert "p32: best on dev: layer 3; ~ within noise of it: no other (exact ties only)" in lines


def test_weights_of_troubled_runs_are_marked():
    records = [make_record("p32", diagnosis={"converged": False}), make_record("dwatt")]
    lines = text_table(weights_table(records).columns).splitlines()
    assert all(line.split()[-2].endswith("*") for line in lines[2:])
    assert not any(line.endswith("*") for line in lines[2:])
    assert "\n* not converged in 1 of 2 runs (p32)\n" in weights_table(records).text()
    rows = [json.loads(line) for line in weights_table(records).text("jsonl").splitlines()]
    assert {row["series"]: row["marks"] for row in rows} == {"p32": ["not converged"], "dwatt": []}


def test_the_caption_of_weights_says_what_they_are_not():
    solved = {"fitter": "lbfgs", "select": "cv:5"}
    caution = "layers not normalised: L2 favours those with large values"
    record = make_record("p32", **solved)
    assert f"softmax; {caution}; one seed" in weights_table([record]).caption
    assert all(caution in notes_of(plot_weights([record], raw=raw)) for raw in (False, True))
    for other in ({}, solved | {"normalize": "standardize"}, solved | {"head": "concat"}):
        assert caution not in weights_table([make_record(**other)]).caption
    both = [make_record("p32"), make_record("concat")]
    assert "after the softmax; concat: share of the logits; one seed" in weights_table(both).caption
    assert weights_table(both, raw=True).caption.count("concat") == 0
    assert "after the softmax; concat: share of the logits one seed" in notes_of(plot_weights(both))
