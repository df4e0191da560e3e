"""Sentences, or whole groups of them, are drawn and left out wherever intervals are made."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import ttest_1samp

from probekit.errors import RecordError
from probekit.metrics import METRICS, Gold, ValueGold
from probekit.results import comparison, load_records
from probekit.results.comparison.resampling import (
    Bootstrap,
    Groups,
    counts,
    crossed,
    pseudo_values,
    shared_groups,
)
from probekit.results.summaries.interval import Drawn
from tests.results.comparison.files import IDS, add_run, bootstrap, classes, grouped

DOCUMENTS = np.arange(len(IDS)) // 5  # twelve of five sentences
FEW = np.arange(len(IDS)) // 15


def right_or_wrong(random, documents, spread=0.45):
    """What a head says of sentences that are easy or hard for it document by document."""
    ease = 0.7 + random.normal(0, spread, documents.max() + 1)
    return (random.random(len(documents)) > ndtr(ease[documents])).astype(np.int64)


def test_a_null_of_twenty_documents_keeps_its_level_over_documents_alone():
    """400 times two heads that are equally good, on 20 documents of 5 to 25 sentences."""
    random, trials = np.random.default_rng(0), 400
    rejected = dict.fromkeys(["sentences", "documents"], np.zeros(2))
    for trial in range(trials):
        documents = np.repeat(np.arange(20), random.integers(5, 26, 20))
        n = len(documents)
        gold = Gold(np.zeros(n, np.int64), np.arange(n + 1), ("0", "1"))
        scorer = METRICS["accuracy"](gold)
        one, two = (right_or_wrong(random, documents) for _ in range(2))
        score_one, score_two = scorer.resampler(one), scorer.resampler(two)
        apart = (two - one).mean()
        for groups in (Groups(n), Groups(n, documents, "document")):
            drawn = bootstrap(
                groups, lambda c, a=score_one, b=score_two: a(c) - b(c), samples=200, seed=trial
            )
            values = np.subtract(*pseudo_values(scorer, [one, two], groups))[None]
            both = crossed([apart], values, groups.drawn)
            found = np.array([drawn.p, both.p]) < 0.05
            rejected[both.over] = rejected[both.over] + found
    shares = {over: found / trials for over, found in rejected.items()}
    assert (shares["sentences"] > 0.15).all()
    assert (shares["documents"] < 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)).all()


@pytest.mark.parametrize("numbers", [None, np.array([0, 1, 0, 2, 1])])
def test_a_sentence_is_drawn_as_often_as_its_group(numbers, monkeypatch):
    monkeypatch.setattr("probekit.results.comparison.resampling._AT_ONCE", 20)
    groups = Groups(5, numbers, "document")
    blocks = list(Bootstrap(samples=102, seed=3).draws(groups))
    assert [len(block) for block in blocks] == [4] * 25 + [2]
    of_sentence = range(5) if numbers is None else numbers
    for block in blocks:
        expected = [[(row == number).sum() for number in of_sentence] for row in block]
        assert counts(block, groups).tolist() == expected


def test_an_interval_is_that_of_a_naive_cluster_bootstrap_and_as_wide_as_students_t():
    """Of a mean over groups of one size, whose exact interval is Student's t."""
    random = np.random.default_rng(1)
    gains = random.normal(0, 1, 20)[np.repeat(np.arange(20), 4)]
    groups = Groups(80, np.repeat(np.arange(20), 4), "document")
    found = bootstrap(groups, lambda times: times @ gains / times.sum(1), samples=4000)
    naive = np.array(
        [gains[::4][row].mean() for block in Bootstrap(samples=4000).draws(groups) for row in block]
    )
    samples = Bootstrap(samples=4000).resample(groups, lambda times: times @ gains / times.sum(1))
    assert samples == pytest.approx(naive)
    exact = ttest_1samp(gains[::4], 0.0)
    width, of_student = found.high - found.low, np.diff(exact.confidence_interval(0.95))[0]
    assert width == pytest.approx(of_student, rel=0.05)
    of_many_samples = 2 * ndtri(0.975) * gains[::4].std() / np.sqrt(20)
    assert groups.stretch * of_many_samples == pytest.approx(of_student)
    assert found.p == pytest.approx(exact.pvalue, abs=0.03)
    assert width > 1.05 * np.diff(np.quantile(naive, [0.025, 0.975]))[0]
    assert naive.min() <= found.low < found.high <= naive.max()


def _mean(gains):
    return lambda times: times @ gains / len(gains)


def test_p_agrees_with_the_interval_and_is_never_zero():
    never = bootstrap(Groups(10), lambda times: np.zeros(len(times)), samples=100)
    assert (never.low, never.high, never.p) == (0.0, 0.0, 1.0)
    always = bootstrap(Groups(10), lambda times: np.ones(len(times)), samples=1000)
    assert always.p == pytest.approx(2 / 1001)
    random = np.random.default_rng(2)
    for shift in (0.05, 0.1, 0.15, 0.2, 0.25):
        found = bootstrap(Groups(100), _mean(random.normal(shift, 1, 100)), samples=2000)
        if abs(found.p - 0.05) > 0.005:
            assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


def test_the_seed_decides():
    gain = np.random.default_rng(0).normal(size=50)
    one, same, other = (
        bootstrap(Groups(50), lambda t: t @ gain, seed=s, samples=100) for s in (0, 0, 1)
    )
    assert one == same != other


@pytest.mark.parametrize("metric", ["accuracy", "f1", "spearman"])
def test_pseudo_values_leave_whole_groups_out(metric):
    """Against scores of the sentences that are left, one group after the other."""
    random = np.random.default_rng(0)
    documents = random.integers(0, 6, 40)
    offsets = np.arange(41)
    if metric == "spearman":
        gold = ValueGold(random.normal(size=40), offsets)
        found = gold.values + random.normal(size=40)
        kept = lambda some: ValueGold(gold.values[some], np.arange(some.sum() + 1))  # noqa: E731
    else:
        gold = Gold(random.integers(0, 2, 40), offsets, ("0", "1"))
        found = np.where(random.random(40) < 0.7, gold.ids, 1 - gold.ids)
        kept = lambda some: Gold(gold.ids[some], np.arange(some.sum() + 1), gold.names)  # noqa: E731
    scorer = METRICS[metric](gold)
    whole = scorer.score(found)[metric]
    left = [
        METRICS[metric](kept(documents != n)).score(found[documents != n])[metric] for n in range(6)
    ]
    (values,) = pseudo_values(scorer, [found], Groups(40, documents, "document"))
    assert values == pytest.approx(6 * whole - 5 * np.array(left))


def test_many_groups_are_left_out_block_by_block(monkeypatch):
    monkeypatch.setattr("probekit.results.comparison.resampling._AT_ONCE", 15)
    groups = Groups(6, np.array([0, 1, 2, 3, 3, 1]), "document")
    blocks = list(groups.without_each())
    assert [len(block) for block in blocks] == [2, 2]
    assert np.concatenate(blocks).tolist() == [
        [float(number != left) for number in groups.numbers] for left in range(4)
    ]


def test_groups_are_numbered_as_they_come_and_counted():
    found = grouped(classes(0.5, 0), DOCUMENTS)
    turned = replace(found, groups=found.groups[::-1])
    assert Groups.of(turned).numbers.tolist() == DOCUMENTS.tolist()
    assert Groups.of(found).drawn == Drawn(12, "documents")
    assert Groups.of(replace(found, grouped_by="prompt")).drawn.noun == "groups by prompt"
    assert Groups.of(classes(0.5, 0)).drawn == Drawn(60)
    assert Groups.of(classes(0.5, 0)).stretch == 1


def test_few_groups_and_one_are_said():
    few = Groups.of(grouped(classes(0.5, 0), FEW))
    assert few.drawn.text == "4 documents, so few that intervals are rough"
    # one mark of a document at the top of a file divides nothing
    one = Groups.of(grouped(classes(0.5, 0), np.zeros(60, int)))
    assert one.whole is None and one.drawn.text == "60 sentences, all of one document"
    found = bootstrap(one, lambda times: times[:, 0] - 1, samples=100)
    assert found == bootstrap(Groups(60), lambda times: times[:, 0] - 1, samples=100)


def test_groups_that_one_side_knows_are_those_of_both():
    plain, known = Groups(3), Groups(3, np.array([0, 0, 1]), "document")
    for order in ([plain, known], [known, plain], [known, Groups(3, known.numbers, "doc")]):
        assert shared_groups(zip("ab", order, strict=True)) is next(
            one for one in order if one.numbers is not None
        )
    assert shared_groups([("a", plain)]) is plain


# through side files


def add_heads(path, groups, other=None, seeds=(0, 1, 2), heads=("p32", "last")):
    """Add two heads on the same groups, or the second one on others."""
    for head, right, own in zip(
        heads, (0.7, 0.6), (groups, groups if other is None else other), strict=True
    ):
        for seed in seeds:
            add_run(path, head, seed, own(classes(right, seed + 10 * len(head))))
    return path


def both(path):
    return comparison.choose_run(f"{path}#head=p32"), comparison.choose_run(f"{path}#head=last")


def in_documents(found):
    return grouped(found, DOCUMENTS)


def alone(found):
    return found


def called_otherwise(found):
    return grouped(found, 20 - DOCUMENTS, "document", "x")


@pytest.mark.parametrize(
    ("one", "other"),
    [(in_documents, in_documents), (in_documents, alone), (in_documents, called_otherwise)],
)
def test_documents_are_resampled_wherever_one_run_knows_them(tmp_path, one, other):
    """Files of an earlier version know none, and what sentences share is no matter of the run."""
    path = add_heads(tmp_path / "r.jsonl", one, other)
    for runs in (both(path), reversed(both(path))):
        found = comparison.compare(*runs, samples=500)
        assert (found.over_both.over, found.over_both.drawn.n) == ("seeds and documents", 12)
        lines = comparison.comparison_table(found).notes
        assert "interval over 3 seeds and 12 documents (crossed, Student's t" in lines[0]
        assert lines[1].endswith("(paired bootstrap, 500 samples of 12 documents)")
    (judged,) = comparison.compare_all(load_records(path), samples=500)
    assert (judged.over, judged.drawn) == ("seeds and documents", Drawn(12, "documents"))
    assert judged.p == pytest.approx(max(found.p, found.over_both.p))
    assert (judged.low, judged.high) == pytest.approx((found.over_both.low, found.over_both.high))
    (line,) = (
        line for line in comparison.verdicts(load_records(path)).lines if line.startswith("p over")
    )
    assert line == (
        "p over seeds and 12 documents (the larger p of a paired bootstrap, 10,000 samples and "
        "of crossed variance components)"
    )


def test_one_seed_is_judged_over_documents_alone(tmp_path):
    path = add_heads(tmp_path / "r.jsonl", lambda one: grouped(one, FEW, "prompt"), seeds=(0,))
    found = comparison.compare_all(load_records(path), samples=500)
    runs = comparison.compare(*reversed(both(path)), samples=500)
    assert found[0].over == "groups by prompt"
    assert found[0].p == pytest.approx(max(runs.p, runs.over_both.p))
    assert comparison.pairs_table(found, samples=500).notes[-1] == (
        "p over 4 groups by prompt, so few that intervals are rough (the larger p of a paired "
        "bootstrap, 500 samples and of a jackknife), where there is one seed or all seeds agree"
    )


def test_depths_are_held_against_the_best_over_documents(tmp_path):
    records = [
        add_run(tmp_path / "r.jsonl", "last", 0, in_documents(classes(0.2 * depth + 0.3, depth)),
                depth=depth, key=f"k{depth}")
        for depth in range(3)
    ]  # fmt: skip
    found = comparison.best_depth(records)
    assert found.drawn == Drawn(12, "documents")
    assert comparison.noise_text([found]) == "paired over 12 documents"


def test_runs_that_know_other_groups_are_refused(tmp_path):
    path = add_heads(tmp_path / "r.jsonl", in_documents, lambda one: grouped(one, FEW, "prompt"))
    message = (
        r"#head=p32, seed 0 and .*#head=last, seed 0 group the sentences differently \(document "
        r"and prompt\), and intervals resample whole groups\. Delete the predictions of both"
    )
    with pytest.raises(RecordError, match=message):
        comparison.compare(*both(path), samples=100)
    (one,) = comparison.compare_all(load_records(path), samples=100)  # over the seeds that are left
    assert one.over == "seeds" and "group the sentences differently" in one.why_not
    add_run(path, "mean", 0, classes(0.5, 3))  # beside which either would do
    with pytest.raises(RecordError, match="group the sentences differently"):
        comparison.compare_all(load_records(path), samples=100)
