"""Comparisons: equal to a naive one, for every kind of prediction, and refused where unfair."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from seqeval.metrics import f1_score

from probekit.errors import MissingFileError, RecordError, UnknownNameError
from probekit.metrics import METRICS
from probekit.results import load_records
from probekit.results.comparison import choose_run, compare, comparison_table
from probekit.results.comparison.resampling import Bootstrap, Groups
from tests.results.comparison import files

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three seeds of a good head, of a worse one, and of one hardly worse."""
    folder = tmp_path_factory.mktemp("made")
    for head, right in (("p32", 0.8), ("last", 0.5), ("mean", 0.795)):
        for seed in SEEDS:
            files.add_run(folder / "runs.jsonl", head, seed, files.classes(right, seed))
    return folder


@pytest.fixture
def file(made, tmp_path):
    """A copy of these, to be changed."""
    return shutil.copytree(made, tmp_path / "runs") / "runs.jsonl"


def runs(file, a="head=p32", b="head=last"):
    return choose_run(f"{file}#{a}"), choose_run(f"{file}#{b}")


def _tags(labels, drawn):
    return [[files.TAGS[i] for i in labels[files.OFFSETS[e] : files.OFFSETS[e + 1]]] for e in drawn]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_equals_a_naive_comparison_with_the_same_draws(file):
    found = compare(*runs(file, b="head=mean"), samples=100, seed=5)
    sides = [[files.classes(right, seed) for seed in SEEDS] for right in (0.8, 0.795)]
    gold = sides[0][0].gold
    naive = []
    for drawn in np.concatenate([*Bootstrap(samples=100, seed=5).draws(Groups(len(files.IDS)))]):
        one, two = (
            np.mean([f1_score(_tags(gold, drawn), _tags(p.predicted, drawn)) for p in side])
            for side in sides
        )
        naive.append(one - two)
    assert [found.low, found.high] == pytest.approx(np.quantile(naive, [0.025, 0.975]), abs=1e-12)
    other = min(np.less_equal(naive, 0).sum(), np.greater_equal(naive, 0).sum())
    assert found.p == 2 * (other + 1) / 101
    scores = [np.mean([files.score(p, "span-f1") for p in side]) for side in sides]
    assert [found.score_a, found.score_b] == pytest.approx(scores)
    assert found.difference == pytest.approx(scores[0] - scores[1])
    assert (found.a, found.b, found.n_seeds, found.over_seeds.n) == ("p32", "mean", 3, 3)
    assert (found.n_sentences, found.split, found.metric) == (len(files.IDS), "test", "span-f1")


def test_a_clear_difference_and_its_mirror(file):
    found = compare(*runs(file), samples=1000)
    assert found.low > 0.1 and found.p < 0.01
    mirror = compare(*reversed(runs(file)), samples=1000)
    assert mirror.difference == pytest.approx(-found.difference)
    assert [mirror.low, mirror.high] == pytest.approx([-found.high, -found.low])
    assert mirror.p == found.p


@pytest.mark.parametrize(
    ("metric", "make", "qualities"),
    [
        ("spearman", files.values, (0.5, 2.0)),
        ("perplexity", files.losses, (4.0, 2.0)),
        ("accuracy", files.classes, (0.9, 0.2)),
        ("f1", lambda right, seed: files.classes(right, seed, ("0", "1")), (0.9, 0.2)),
        ("matthews", lambda right, seed: files.classes(right, seed, ("b", "a")), (0.9, 0.2)),
    ],
)
def test_every_kind_of_prediction(tmp_path, metric, make, qualities):
    assert metric in METRICS
    for head, quality in zip(("p32", "last"), qualities, strict=True):
        files.add_run(tmp_path / "r", head, 0, make(quality, 0), metric)
    found = compare(*runs(tmp_path / "r"), split="dev", samples=300)
    assert 0 < found.low <= found.difference <= found.high
    assert found.over_seeds.half is None


def test_classes_in_another_order_are_the_same_labels(file):
    one = files.classes(0.5, 7)
    order = np.array([2, 0, 3, 1])
    names = tuple(np.array(files.TAGS)[np.argsort(order)])
    turned = replace(one, gold=order[one.gold], predicted=order[one.predicted], names=names)
    files.add_run(file, "dwatt", 0, one, key="a1")
    files.add_run(file, "dwatt", 0, turned, key="b2", lr=0.5)
    found = compare(choose_run(f"{file}#a1"), choose_run(f"{file}#b2"), samples=100)
    assert (found.difference, found.p) == (0.0, 1.0)


# what is refused


def test_a_side_file_of_another_run_and_one_that_is_gone(file):
    side, *_, other = (file.parent / record.predictions for record in load_records(file))
    side.write_bytes(other.read_bytes())
    with pytest.raises(RecordError, match="holds the predictions of run"):
        compare(*runs(file))
    side.unlink()
    with pytest.raises(MissingFileError, match="again with --predictions"):
        compare(*runs(file))


def test_a_side_file_that_does_not_give_the_score_of_its_record(file):
    files.add_run(file, "concat", 0, files.classes(0.5, 0), test_score=0.9)
    with pytest.raises(RecordError, match=r"predictions score 0\..* on test, its record says 0\.9"):
        compare(*runs(file, "head=concat", "head=p32#seed=0"))


def _without_last(found):
    n_rows = found.offsets[-2]
    rows = {"predicted": found.predicted[:n_rows], "gold": found.gold[:n_rows]}
    return replace(found, ids=found.ids[:-1], offsets=found.offsets[:-1], **rows)


@pytest.mark.parametrize(
    ("change", "own", "message"),
    [
        (_without_last, {}, r"60 sentences, .* on 59"),
        (
            lambda p: replace(p, ids=(*p.ids[:-1], "x")), {},
            r"sentence 60 is 'test-59' in .*, but 'x' in",
        ),
        (lambda p: replace(p, gold=np.roll(p.gold, 1)), {}, r"differ, first in sentence 'test-\d"),
        (
            lambda p: replace(p, offsets=np.r_[0, p.offsets[1] + 1, p.offsets[2:]]), {},
            "sentence 'test-0' has different numbers of rows",
        ),
        (replace, {"task": "other"}, "has task .*, .* has other"),
        (replace, {"label": "other"}, "has label .*, .* has other"),
        (replace, {"metric": "accuracy"}, "has metric .*, .* has accuracy"),
    ],
)  # fmt: skip
def test_other_sentences_labels_rows_tasks_and_metrics(file, change, own, message):
    files.add_run(file, "concat", 0, change(files.classes(0.5, 0)), **own)
    with pytest.raises(RecordError, match=message):
        compare(*runs(file, "head=p32#seed=0", "head=concat"))


def test_a_metric_that_scores_something_else(file):
    one = files.add_run(file, "concat", 0, files.values(0.5, 0), "spearman", key="v")
    two = files.add_run(file, "dwatt", 0, files.values(0.5, 1), "spearman", key="w")
    a, b = (
        replace(choose_run(f"{file}#{r.key}"), records=(replace(r, metric="accuracy"),))
        for r in (one, two)
    )
    with pytest.raises(RecordError, match="accuracy scores classes; found values"):
        compare(a, b)


def test_one_seed_against_three(file):
    with pytest.raises(RecordError, match=r"has seeds 0, .* has 0, 1, 2: .*--where seed=0"):
        compare(*runs(file, "head=p32#seed=0", "head=last"))
    conditions = (["head=p32", "seed=0"], ["head=last"])  # of one file, so both are called alike
    with pytest.raises(RecordError, match=r"has seeds 0, .* has 0, 1, 2: .*--where seed=0"):
        compare(*(choose_run(str(file), where) for where in conditions))
    found = compare(*runs(file, "head=p32#seed=0", "head=p32#seed=1"), samples=100)
    assert (found.n_seeds, found.a, found.b) == (1, "p32, seed 0", "p32, seed 1")


def test_seeds_that_all_differ_alike(file):
    for seed in SEEDS:
        files.add_run(file, "concat", seed, files.classes(0.8, seed))
    said = comparison_table(compare(*runs(file, b="head=concat"), samples=100)).text()
    assert "the same difference with each of 3 seeds: +0.00" in said


def test_what_is_said_of_two_runs_of_one_seed(file):
    files.add_run(file, "dwatt", 0, files.classes(0.6, 3), lr=0.5, depth=4)
    found = compare(*runs(file, "head=last#seed=0", "head=dwatt"), samples=100)
    lines = comparison_table(found).text().splitlines()
    half = 100 * found.over_both.half
    assert lines[4].split() == ["difference", f"{100 * found.difference:.2f}", "±", f"{half:.2f}"]
    assert lines[6].startswith("± is the half width of the 95 % interval over 60 sentences (jack")
    assert lines[7].startswith(f"95 % interval of the difference: {100 * found.low:+.2f} to ")
    assert lines[8:] == [
        "one seed each, so the variation between seeds is unknown",
        "the runs differ in depth all and 4, lr 0.002 and 0.5",
    ]


def test_splits(file):
    with pytest.raises(RecordError, match="no predictions for train, only for dev, test; choose"):
        compare(*runs(file), split="train")
    for record in load_records(file):
        table = pq.read_table(record.predictions)
        pq.write_table(table.slice(0, len(files.IDS)), record.predictions)
    with pytest.raises(RecordError, match="no predictions for test, only for dev"):
        compare(*runs(file))


# which run


def test_several_settings_are_listed(file):
    with pytest.raises(RecordError) as caught:
        choose_run(str(file))
    message = str(caught.value).replace(str(file), "F")
    assert message == (
        "F: 9 records that differ in head: last, mean, p32. A run is one setting with its seeds: "
        "write F#head=p32, or choose for both runs with --where head=p32."
    )


def test_what_was_typed_is_added_to(file):
    for protocol in ("full", "online code, full"):
        files.add_run(
            file, "dwatt", 0, files.classes(0.5, 0), protocol=protocol, key=f"1{protocol[0]}"
        )
    with pytest.raises(RecordError) as caught:
        choose_run(f"{file}#head=dwatt#epochs=5")
    message = str(caught.value).replace(str(file), "F")
    assert "differ in protocol: full, 'online code, full'. A run" in message
    end = "write F#head=dwatt#epochs=5,protocol=full, or choose for both runs with --where "
    assert message.endswith(f"{end}protocol=full.")
    for typed, key in (("epochs=5,protocol=full", "1f"), ("protocol=online code, full", "1o")):
        (found,) = choose_run(f"{file}#head=dwatt#{typed}").records
        assert found.key == key
    with pytest.raises(RecordError, match=r"#1#protocol=full, or"):
        choose_run(f"{file}#1", ["head=dwatt"])
    files.add_run(file, "concat", 0, files.classes(0.5, 0), label="a b", key="x")
    files.add_run(file, "concat", 0, files.classes(0.5, 0), label="ner", key="y")
    with pytest.raises(RecordError, match=r"write '.*#head=concat,label=a b', or .* 'label=a b'\."):
        choose_run(f"{file}#head=concat")


def test_conditions_with_commas_between_them(file):
    files.add_run(file, "p32", 0, files.classes(0.5, 0), pooling="mean", key="m")
    assert [r.key for r in choose_run(f"{file}#pooling=mean,head=p32").records] == ["m"]
    assert choose_run(f"{file}#head=last,seed=0,1").seeds == [0, 1]
    with pytest.raises(RecordError, match="no records with head=last"):
        choose_run(f"{file}#pooling=mean,head=last")
    with pytest.raises(UnknownNameError, match="unknown option 'hed'"):
        choose_run(f"{file}#pooling=mean,hed=p32")


def test_parts_of_a_run(file):
    assert [r.seed for r in choose_run(f"{file}#head=p32").records] == [0, 1, 2]
    assert [r.key for r in choose_run(f"{file}#p32-1").records] == ["p32-1-runs"]
    assert choose_run(str(file), ["head=last", "seed=2"]).seeds == [2]
    with pytest.raises(RecordError, match="no record has a key that starts with 'ff'"):
        choose_run(f"{file}#ff")
    with pytest.raises(RecordError, match="no records with head=crf"):
        choose_run(f"{file}#head=crf")
    with pytest.raises(MissingFileError, match="no such file"):
        choose_run("none.jsonl#head=p32")


def test_a_path_may_hold_the_sign_of_a_part(tmp_path):
    (tmp_path / "a#b").mkdir()
    files.add_run(tmp_path / "a#b" / "runs#1.jsonl", "p32", 0, files.classes(0.5, 0))
    for parts in ("", "#head=p32", "#p32#seed=0"):
        assert choose_run(str(tmp_path / "a#b" / f"runs#1.jsonl{parts}")).seeds == [0]
