"""Verdicts of rows against a reference and of every pair: who is compared, and over what."""

import csv
import io

import numpy as np
import pytest

from probekit.errors import OptionError, RecordError
from probekit.results import load_records, select
from probekit.results.comparison import choose_run, compare, compare_all, pairs_table, verdicts
from probekit.results.comparison.resampling import crossed
from tests.results.comparison.files import add_run, classes
from tests.results.samples import make_record


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """At 8 shots and at all: `last`, a better head, one as good, one without predictions."""
    path = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    for shots in (8, None):
        for head, right in (("last", 0.5), ("p32", 0.85), ("mean", 0.5), ("concat", 0.9)):
            for seed in range(5):
                found = classes(right, 100 * ord(head[0]) + seed + (shots or 0))
                without = {"predictions": None} if head == "concat" else {}
                key = f"{head}-{seed}-{shots}"
                add_run(path, head, seed, found, key=key, shots=shots, **without)
    return path


def by_name(found):
    return {(one.a, one.b): one for one in found}


def test_rows_are_compared_with_the_reference_of_their_data(file):
    records = load_records(file)
    found = verdicts(records, samples=500)
    assert found.split == "test"
    pairs = by_name(found.rows.values())
    expected = {
        (f"{head}, {shots}", f"last, {shots}")
        for head in ("p32", "mean", "concat")
        for shots in ("8 shots", "all sentences")
    }
    assert pairs.keys() == expected
    better = [one for (a, _), one in pairs.items() if a.startswith("p32")]
    assert [one.verdict for one in better] == ["higher"] * 2
    assert [one.over for one in better] == ["seeds and sentences"] * 2
    assert all(one.verdict is None for (a, _), one in pairs.items() if a.startswith("mean"))


def test_what_is_said_is_what_compare_says(file):
    (a, b) = (choose_run(f"{file}#head={head}#shots=8") for head in ("p32", "last"))
    expected = compare(a, b, samples=1000, seed=4)
    records = select(load_records(file), ["head=p32,last", "shots=8"])
    (found,) = compare_all(records, samples=1000, seed=4)
    assert (found.a, found.b) == ("last", "p32")
    assert found.difference == pytest.approx(-expected.difference)
    assert [found.low, found.high] == pytest.approx(
        [-expected.over_both.high, -expected.over_both.low]
    )
    assert found.p == max(expected.p, expected.over_both.p)
    assert found.corrected == found.p  # a family of one
    assert (found.score_b, found.n_seeds) == (pytest.approx(expected.score_a), 5)


def test_all_pairs_are_one_family(file):
    found = compare_all(load_records(file), samples=500)
    assert len(found) == 2 * 6
    smallest = min(found, key=lambda one: one.p)
    assert smallest.corrected == pytest.approx(12 * smallest.p)
    # so many samples that p can be below 5 % / 12, though fewer were asked for
    assert smallest.p == pytest.approx(2 / 961)


def test_without_predictions_seeds_are_all_there_is(file):
    found = by_name(verdicts(load_records(file), samples=500).rows.values())
    one = found["concat, 8 shots", "last, 8 shots"]
    assert (one.over, one.p, one.verdict) == ("seeds", 0.0625, None)
    scores = {
        head: [r.test_score for r in select(load_records(file), [f"head={head}", "shots=8"])]
        for head in ("concat", "last")
    }
    differences = np.subtract(scores["concat"], scores["last"])
    assert one.difference == pytest.approx(differences.mean())
    text = " ".join(verdicts(load_records(file), samples=500).lines)
    assert "no verdict for concat, 8 shots; concat, all" in text
    assert "with 5 seeds p is 0.062 or more" in text
    assert "sentences were not compared (no predictions were kept)" in text


def test_seeds_that_are_alike_say_nothing():
    records = [make_record(h, s, test_score=score) for h, score in (("last", 0.5), ("p32", 0.6))
               for s in range(5)]  # fmt: skip
    found = verdicts(records)
    (one,) = found.rows.values()
    assert (one.p, one.low, one.verdict, one.over) == (None, None, None, None)
    assert one.difference == pytest.approx(0.1)
    assert "no test of p32: one seed, or seeds that all score alike" in found.lines[-1]


def test_six_seeds_alone_can_have_a_verdict():
    random = np.random.default_rng(0)
    records = [
        make_record(head, seed, test_score=score + 0.01 * random.random())
        for head, score in (("last", 0.5), ("p32", 0.6))
        for seed in range(6)
    ]
    (one,) = verdicts(records).rows.values()
    assert (one.p, one.verdict) == (2 / 2**6, "higher")


def test_side_files_that_are_gone_are_said(file, tmp_path):
    copy = tmp_path / "alone.jsonl"
    text = file.read_text().replace(str(file.parent), "/nowhere")
    copy.write_text(text)
    found = verdicts(load_records(copy), samples=500)
    assert {one.over for one in found.rows.values()} == {"seeds"}
    text = " ".join(found.lines)
    assert "no such file of predictions; run the same" in text
    assert "again with --predictions). Train with --predictions, or more seeds" in text


# which reference


def records_of(*settings):
    return [
        make_record(head, seed, key=f"{head}{options}{seed}", **options)
        for head, options in settings
        for seed in (0, 1)
    ]


def pairs_of(records, against=None):
    found = verdicts(records, against)
    return {(one.a, one.b) for one in found.rows.values()}


def test_the_nearest_reference_is_the_one_with_most_options_in_common():
    records = records_of(
        ("last", {"normalize": "none"}), ("last", {"normalize": "standardize"}),
        ("p32", {"normalize": "standardize"}), ("concat", {"normalize": "none", "lr": 0.1}),
    )  # fmt: skip
    expected = {("p32, standardize", "last, standardize"), ("concat, raw", "last, raw")}
    assert pairs_of(records) == expected
    text = verdicts(records).lines[0]
    assert (
        "lower than last with the options closest to a row's, on the same data (some diff" in text
    )
    one = pairs_of(records, "head=last,normalize=none")
    assert ("last, standardize", "last, raw") in one and len(one) == 3


def test_references_that_are_as_near_are_refused():
    records = records_of(("last", {"lr": 0.1}), ("last", {"lr": 0.2}), ("p32", {"lr": 0.3}))
    with pytest.raises(OptionError) as caught:
        verdicts(records)
    assert str(caught.value).startswith(
        "p32, lr 0.3 could be compared with 2 references, which differ in lr; name one, such as "
        "--against head=last,lr=0.1, or choose with --where."
    )
    assert len(pairs_of(records, "last,lr=0.1")) == 2


def test_depths_and_models_are_references_where_they_are_named():
    records = records_of(
        ("last", {"depth": 1}), ("last", {"depth": 2}), ("last", {}), ("mean", {"depth": 2})
    )
    assert pairs_of(records) == {("mean, depth 2", "last, depth 2")}
    assert len(pairs_of(records, "last,depth=1")) == 3
    models = records_of(("last", {"model": "a", "entry": "x" * 8}), ("last", {"model": "b"}))
    assert pairs_of(models, "model=a") == {("last, b", "last, a")}


def test_what_was_trained_is_held_against_what_was_frozen():
    methods = [{"method": name} for name in (None, "frozen", "lora")]
    methods[2]["n_backbone_params"] = 9
    every = records_of(*((head, own) for own in methods for head in ("last", "mean", "p32")))
    pairs = pairs_of(every, "mean")
    assert {b for _, b in pairs} == {"mean, from the cache"} and len(pairs) == 8
    assert {b for _, b in pairs_of(every[6:], "mean")} == {"mean, frozen"}
    assert {b for _, b in pairs_of(every, "head=mean,method=lora")} == {"mean, lora"}
    said = verdicts(every, "head=mean,method=lora").lines[0]
    assert "than mean, lora on the same data" in said


def test_what_has_no_reference_is_counted():
    records = records_of(("last", {"shots": 8}), ("p32", {"shots": 8}), ("p32", {"shots": 16}))
    assert verdicts(records).lines[-1] == "1 rows have no reference on the same data"
    assert len(verdicts(records).rows) == 1


@pytest.mark.parametrize(
    ("against", "message"),
    [
        (None, r"no reference to compare with: no records with head=last; .* --against mean\.$"),
        ("crf", r"no reference to compare with: no records with head=crf; head is p32 or concat\."),
        ("p32,concat", r"--against head=p32,concat: no other setting was run on the same data"),
    ],
)
def test_what_cannot_be_a_reference(against, message):
    records = records_of(("p32", {}), ("concat", {}))
    with pytest.raises(RecordError, match=message):
        verdicts(records, against)


def test_settings_that_share_no_data_are_no_pairs():
    with pytest.raises(RecordError, match=r"^one setting, and a pair needs two: pairs share model"):
        compare_all(records_of(("p32", {})))
    with pytest.raises(RecordError, match="2 settings, but no two were run on the same data"):
        compare_all(records_of(("p32", {"shots": 8}), ("last", {"shots": 16})))
    with pytest.raises(RecordError, match="none of 4 records has a score on dev-mm; choose anoth"):
        compare_all(records_of(("p32", {}), ("last", {})), split="dev-mm")
    with pytest.raises(OptionError, match="samples=10: an interval needs at least 100"):
        compare_all(records_of(("p32", {}), ("last", {})), samples=10)


def test_baselines_are_no_settings():
    heads = records_of(("p32", {}), ("last", {}))
    others = records_of(
        ("majority", {}), ("p32", {"label": "ner (control 0)"}),
        ("p32", {"protocol": "online code, full"}), ("p32", {"model": "org/tiny-model-random0"}),
    )  # fmt: skip
    assert by_name(compare_all([*heads, *others])).keys() == {("last", "p32")}


def test_a_setting_of_fewer_seeds_takes_none_from_other_pairs(tmp_path):
    path, seeds = tmp_path / "runs.jsonl", {"last": (0, 1, 2), "mean": (0, 1), "p32": (0, 1, 2)}
    for place, (head, own) in enumerate(seeds.items()):
        for seed in own:
            add_run(path, head, seed, classes(0.5 + place / 10, 10 * place + seed))
    records = load_records(path)
    pairs = by_name(compare_all(records, samples=200))
    assert {pair: one.n_seeds for pair, one in pairs.items()} == {
        ("last", "mean"): 2, ("last", "p32"): 3, ("mean", "p32"): 2,
    }  # fmt: skip
    assert {one.over for one in pairs.values()} == {"seeds and sentences"}
    (alone,) = compare_all(select(records, ["head=last,p32"]), samples=200)
    assert alone.difference == pairs["last", "p32"].difference


def test_one_seed_is_over_sentences(tmp_path):
    for head, right in (("last", 0.3), ("p32", 0.9)):
        add_run(tmp_path / "r.jsonl", head, 0, classes(right, 3))
    found = compare_all(load_records(tmp_path / "r.jsonl"), samples=500)
    (one,) = found
    assert (one.over, one.verdict) == ("sentences", "lower")
    assert pairs_table(found, samples=500).notes == [
        "p over 60 sentences (paired bootstrap, 500 samples), where there is one seed or "
        "all seeds agree"
    ]
    assert crossed([one.difference], np.zeros((1, 5))).over == "sentences"


def test_programs_read_plain_numbers(file):
    found = compare_all(select(load_records(file), ["shots=8"]), samples=500)
    lines = list(csv.DictReader(io.StringIO(pairs_table(found).text("csv"))))
    for line, one in zip(lines, found, strict=True):
        said = {
            "score a": 100 * one.score_a, "score b": 100 * one.score_b,
            "difference": 100 * one.difference, "95 % interval, low": 100 * one.low,
            "95 % interval, high": 100 * one.high, "p": one.p, "p (Holm)": one.corrected,
        }  # fmt: skip
        assert {name: float(line[name]) for name in said} == pytest.approx(said, rel=1e-11)
        assert (line["a"], line["b"], line["a is"]) == (one.a, one.b, one.verdict or "open")
    assert {line["a is"] for line in lines} > {"open"}


@pytest.mark.parametrize(
    ("metric", "decimals", "said"),
    [("brier", 4, "Brier score, smaller is better"), ("perplexity", 2, "perplexity, smaller")],
)
def test_numbers_are_written_as_their_metric_is(metric, decimals, said):
    options = {"metric": metric, "scores": {}}
    found = compare_all(records_of(("p32", options), ("last", options)))
    table = pairs_table(found)
    cells = table.text().splitlines()[2].split()
    assert f"{found[0].score_a:.{decimals}f}" in cells and said in table.caption
    assert f"{found[0].difference:+.{decimals}f}" in cells
