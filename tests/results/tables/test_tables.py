"""Tables: means and intervals over seeds, the columns that matter, three styles."""

import json
from dataclasses import replace

import pytest
from scipy import stats

from probekit.errors import RecordError
from probekit.results import select
from probekit.results.summaries.interval import interval
from probekit.results.summaries.layer_measures import WEIGHTS
from probekit.results.summaries.typeset import text_table
from probekit.results.tables import depth_table, score_table, summarise, table, weights_table
from probekit.results.tables.scores import caption
from tests.results.samples import HEADS, make_record

SCORES = (0.70, 0.72, 0.77)


def _three_seeds(**options):
    return [
        make_record(seed=seed, eval_score=score, eval_last=score, test_score=score / 2, **options)
        for seed, score in enumerate(SCORES)
    ]


def test_summary_is_over_seeds():
    records = _three_seeds(head="last") + _three_seeds(head="dwatt", n_params=7)
    first, second = summarise(list(reversed(records)))
    assert (first.options["head"], second.options["head"]) == ("last", "dwatt")
    assert first.seeds == (0, 1, 2) and first.n == 3
    low, high = stats.t.interval(0.95, 2, sum(SCORES) / 3, stats.sem(SCORES))
    assert (first.eval_score.low, first.eval_score.high) == pytest.approx((low, high))
    assert first.test_score.mean == pytest.approx(sum(SCORES) / 6)
    assert second.n_params == 7


def test_summary_refuses_two_records_of_one_seed():
    with pytest.raises(RecordError, match=r"p32, all sentences: 2 records share seeds.* in no opt"):
        summarise([make_record(), make_record(key="again")])


def test_no_records_says_what_to_run():
    with pytest.raises(RecordError, match="run `probekit train` or `probekit sweep` first"):
        summarise([])


def test_text_table_lines_up():
    records = _three_seeds(head="last", shots=8, n_params=1234567)
    records += [make_record("p32", shots=128, test_score=None, eval_score=1.0, eval_last=0.05)]
    expected = """\
head  shots  seeds       dev best      dev last          test     params  seconds
----  -----  -----  -------------  ------------  ------------  ---------  -------
last      8      3   73.00 ± 8.96  73.00 ± 8.96  36.50 ± 4.48  1,234,567      1.5
p32     128      1  100.00          5.00             -             1,004      1.5
"""
    assert table(summarise(records)) == expected


def test_markdown_table():
    lines = table(summarise(_three_seeds(head="last", task="a|b")), "markdown").splitlines()
    assert lines[0].startswith("| head | shots | seeds | dev | test |")
    assert lines[1] == "| :--- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2].startswith("| last | all | 3 | 73.00 ± 8.96 |")
    both = table(summarise([make_record(task="a|b"), make_record(task="c")]), "markdown")
    assert "| a\\|b |" in both


def test_json_lines_hold_everything():
    row = json.loads(table(summarise(_three_seeds(head="last")), "jsonl"))
    assert row["options"]["head"] == "last" and row["options"]["lr"] == 0.002
    assert row["eval_score"]["n"] == 3
    assert row["eval_score"]["mean"] == pytest.approx(0.73)


def test_columns_are_the_options_that_vary():
    def columns(*records):
        return table(summarise(list(records))).splitlines()[0].split("  ")[:5]

    def shown(*records):
        return {name.strip() for name in columns(*records)} & {
            *("layers", "lr", "normalize", "label", "metric", "entry", "model")
        }

    assert shown(make_record("last"), make_record("p32")) == set()  # layers follow from the head
    assert shown(make_record(), make_record(layers=[1], key="x")) == {"layers"}
    assert shown(make_record(), make_record(lr=1.0)) == {"lr"}
    assert shown(make_record(), make_record(label="pos", metric="accuracy")) == {"label"}
    assert shown(make_record(), make_record(model="b", entry="other")) == {"model"}


def test_entries_are_told_apart_in_few_words():
    def seen(**about):
        return {"examples": 8, "dtype": "float16", "format": "zarr", **about}

    records = [
        make_record(entry=digits * 64, seen=about)
        for digits, about in (
            ("a", seen()),
            ("b", seen(limit=200)),
            ("c", seen(dtype="int8", format="hdf5")),
        )
    ]
    lines = table(summarise(records)).splitlines()
    assert lines[0].split()[2:4] == ["entry", "seeds"]
    cells = {line[13:].split("  ")[0] for line in lines[2:]}
    assert cells == {"aaaaaaaa", "200 examples (bbbbbbbb)", "int8 hdf5 (cccccccc)"}
    for wanted in ("b" * 8, "b" * 64, "200 examples (bbbbbbbb)"):
        assert select(records, [f"entry={wanted}"]) == [records[1]]
    with pytest.raises(RecordError, match=r"entry is .*200 examples \(bbbbbbbb\)"):
        select(records, ["entry=b"])


CONTROL, OTHER = ({"label": f"ner (control {n})"} for n in (0, 1))
RANDOM = "control labels, random by word type, decoder linear"
TOKENS = {"spec": {"token_head": "max"}}


@pytest.mark.parametrize(
    ("one", "two", "start"),
    [
        ({}, {"decoder": "crf"}, "conll ner"),
        ({}, {"head": "majority", "decoder": "none"}, "conll ner, decoder linear"),
        ({"decoder": "none"}, {"decoder": "none"}, "conll ner, decoder none"),
        ({}, {"label": "pos"}, "conll, decoder linear"),
        ({"label": "2"}, {"label": "2"}, "conll, label 2, decoder linear"),
        ({}, {"task": "wnut17"}, "label ner, decoder linear"),
        ({"pooling": "mean"}, {"pooling": "mean"}, "conll ner, decoder linear, pooling mean"),
        ({"pooling": "mean"}, {"pooling": "cls"}, "conll ner, decoder linear"),
        (TOKENS, TOKENS, "conll ner, decoder linear, token head max"),
        (TOKENS, {}, "conll ner, decoder linear"),
        (CONTROL, CONTROL, f"conll ner (control 0), {RANDOM}"),
        (CONTROL, OTHER, f"conll, {RANDOM}"),
        ({}, OTHER, "conll, decoder linear"),
    ],
)
def test_caption_says_what_all_rows_share(one, two, start):
    records = [make_record(**one), make_record(**{"head": "last"} | two)]
    assert caption(records, [interval([0.5])]).startswith(f"{start}: span")


def test_a_caption_says_why_there_is_no_interval():
    lacking = "no stored predictions; run again with --predictions."
    assert score_table([make_record()]).caption.endswith(f"; no interval: one seed and {lacking}")
    scores = dict.fromkeys(("eval_score", "eval_last", "test_score"), 0.5)
    alike = score_table([make_record(seed=seed, **scores) for seed in (0, 1)]).caption
    assert alike.endswith(f"; no interval: 2 seeds that all agree and {lacking}")
    weights = weights_table([make_record()]).caption
    assert weights.endswith("after the softmax; one seed, so no interval.")


def by_depth(last):
    """Records of three depths, whose last dev score is that much below the best."""
    return [
        make_record(
            "last", seed, depth=depth, normalize=normalize,
            eval_score=0.1 * depth + 0.5, eval_last=0.1 * depth + 0.5 - last,
        )
        for seed in (0, 1)
        for depth in (0, 1, 2)
        for normalize in ("none", "standardize")
    ]  # fmt: skip


def test_depth_table():
    records = by_depth(last=0.0)
    expected = """\
layer, dev  last, raw  last, standardize
----------  ---------  -----------------
0 = emb        50.00              50.00
1              60.00              60.00
2              70.00~             70.00~
"""
    assert text_table(depth_table([*records, make_record()], "dev").columns) == expected
    beside = """\
layer    last: dev best  last: dev last
-------  --------------  --------------
0 = emb          50.00            49.00
1                60.00            59.00
2                70.00~           69.00
"""
    assert (
        text_table(
            depth_table([r for r in by_depth(last=0.01) if r.normalize == "none"], "dev").columns
        )
        == beside
    )
    rows = [json.loads(line) for line in depth_table(records, "dev").text("jsonl").splitlines()]
    known = {"marks": [], "best": False, "within_noise": False, "over": "seeds", "drawn": None}
    known["why_not"] = "no stored predictions; run again with --predictions"
    assert rows[0] == {"series": "last, raw", "layer": 0, "mean": 0.5, "half": None, "n": 2} | known
    assert [row["within_noise"] for row in rows] == [False, False, True] * 2


def test_depth_table_shows_gaps_and_other_scores():
    records = [make_record("last", depth=0), make_record("p32", depth=1, test_score=0.25)]
    lines = depth_table(records, "test").text("markdown").splitlines()
    assert lines[0].startswith("| layer, test |")
    assert lines[2].endswith("| - |") and lines[3] == "| 1 | - | 25.00 |"


def test_perplexity_is_not_percent():
    records = [
        make_record("last", depth=d, metric="perplexity", eval_score=30.25 - d, eval_last=30.25 - d)
        for d in (0, 1)
    ]
    assert text_table(depth_table(records, "dev").columns).splitlines()[2:] == [
        "0 = emb     30.25",
        "1           29.25~",
    ]
    assert " 30.25 " in table(summarise(records)).splitlines()[2]
    assert score_table(records).caption.startswith("conll ner, decoder linear: perplexity; no i")
    both = [*records, make_record("last", seed=1, depth=1, task="b", eval_score=0.5)]
    lines = table(summarise(both)).splitlines()
    assert any(" 50.00 " in line for line in lines) and any(" 29.25 " in line for line in lines)


def test_settings_are_a_column_where_they_differ():
    records = [make_record(options={"decoder.hidden": n}) for n in (64, 128)]
    lines = table(summarise([*records, make_record()])).splitlines()
    assert lines[0].split()[:3] == ["head", "shots", "options"]
    cells = [line.split()[2] for line in lines[2:]]
    assert cells == ["decoder.hidden=128", "decoder.hidden=64", "-"]


def test_weights_table():
    records = [make_record("p32", weights={1: 0.25, 2: 0.75}), make_record("last", weights={})]
    records += [make_record("scalar-mix", s, weights={0: s, 1: 0.0, 2: 1 - s}) for s in (0, 1)]
    assert text_table(weights_table(records).columns).splitlines() == [
        "layer      p32     scalar-mix",
        "-------  -----  -------------",
        "0 = emb      -  0.500 ± 6.353",
        "1        0.250  0.000",
        "2        0.750  0.500 ± 6.353",
    ]


def test_how_far_weights_moved_and_seeds_lie_apart():
    """Two seeds start at the vertices of two layers, and go half and a quarter of the way."""
    starts = ({1: 1.0, 2: 0.0}, {1: 0.0, 2: 1.0})
    records = [
        make_record("dwatt", seed, initial_weights=start, weights={1: 0.5, 2: 0.5})
        for seed, start in enumerate(starts)
    ]
    records[1] = replace(records[1], weights={1: 0.25, 2: 0.75})
    assert WEIGHTS.distances(WEIGHTS.columns(records)) == [
        "dwatt: training moved weights by 0.375 ± 1.588, seeds are 0.250 apart "
        "(before training 1.000)",
        "(distances are half the sum of absolute differences: 0 the same, 1 disjoint)",
    ]
    assert (
        WEIGHTS.distances({"mean": [make_record("mean", s, weights={1: 1.0}) for s in (0, 1)]})
        == []
    )
    cells = [json.loads(line) for line in weights_table(records).text("jsonl").splitlines()]
    assert [cell["before_training"] for cell in cells] == [0.5, 0.5]


def test_weights_before_the_softmax():
    text = weights_table([make_record(head) for head in HEADS], raw=True).text()
    assert text.splitlines()[0].split() == ["layer", "p32"]
    with pytest.raises(RecordError, match=r"weights before the softmax; run `probekit train`"):
        weights_table([make_record("last")], raw=True)


def test_a_table_says_how_much_of_train_was_read():
    def cells(*records):
        header, _, *lines = table(summarise(records)).splitlines()
        return [header.split()[:3], *(line.split()[:3] for line in lines)]

    tenth, shots, full = (
        make_record("p32", **options) for options in ({"fraction": 0.1}, {"shots": 8}, {})
    )
    assert cells(tenth) == [["head", "fraction", "seeds"], ["p32", "0.1", "1"]]
    assert cells(full) == [["head", "shots", "seeds"], ["p32", "all", "1"]]
    assert cells(tenth, shots, full) == [
        ["head", "shots", "fraction"],
        ["p32", "8", "-"],
        ["p32", "-", "0.1"],
        ["p32", "all", "all"],
    ]
