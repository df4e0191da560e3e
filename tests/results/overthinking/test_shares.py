"""Shares of overthinking: planted, by an independent script, and none where there is none."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from probekit import overthinking
from probekit.results.comparison.resampling import Bootstrap, Groups
from probekit.results.overthinking.measure import halves, mcnemar, overthinking_text
from probekit.results.summaries.interval import Drawn
from tests.results.overthinking.held import HELD, add_depths


def measure(records, **options):
    (found,) = overthinking(records, **{"samples": 200} | options)
    return found


def by_name(found):
    return {share.name: share for share in found.shares}


def noisy(rng, gold, right, *shape, n_classes=2):
    """Return predictions of which a share ``right`` is right, and the rest are drawn."""
    size = (*shape, len(gold))
    return np.where(rng.random(size) < right, gold, rng.integers(0, n_classes, size))


def test_shares_equal_an_independent_script():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5, 40)
    gold = rng.integers(0, 3, lengths.sum())
    probes = noisy(rng, gold, 0.5, 2, 4, n_classes=3)
    records = add_depths(probes, gold, names=("a", "b", "c"), lengths=lengths)
    found = measure(records)
    shares = by_name(found)

    # the ten lines: from what the side files hold
    by = {(r.seed, r.depth): HELD[Path(r.predictions)][1]["dev"].predicted for r in records}
    counts = dict.fromkeys(("w", "d", "c", "layers", "expected"), 0.0)
    for seed in (0, 1):
        wrong = (by[seed, 3] != gold).mean()  # all are equally sure, so that this is what is left
        for row in range(len(gold)):
            last = by[seed, 3][row] == gold[row]
            good = [d for d in range(3) if by[seed, d][row] == gold[row]]
            counts["w"] += last and bool(good)
            counts["d"] += not last and bool(good)
            counts["c"] += last or bool(good)
            counts["layers"] += 3 - good[0] if last and good else 0
            others = {by[seed, d][row] for d in range(3)} - {by[seed, 3][row]}
            counts["expected"] += len(others) * wrong / 2  # two others share it alike
    total = 2 * len(gold)
    assert found.depths == (0, 1, 2, 3) and found.n_sentences == 40 and found.unit == "words"
    for name, kind in (("wasteful", "w"), ("destructive", "d"), ("cumulative", "c")):
        assert shares[name].share.value == pytest.approx(counts[kind] / total)
    assert shares["destructive"].expected.value == pytest.approx(counts["expected"] / total)
    assert shares["destructive"].excess.value == pytest.approx(
        (counts["d"] - counts["expected"]) / total
    )
    assert shares["layers wasted"].share.value == pytest.approx(counts["layers"] / counts["w"])
    for place, one in enumerate(found.by_depth.earlier):
        wrong = by_seed(by, 3) != gold
        right = (by_seed(by, place) == gold)[wrong].mean()
        assert one.right.value == pytest.approx(right)


def by_seed(by, depth):
    return np.stack([by[seed, depth] for seed in (0, 1)])


def test_intervals_are_those_of_resampled_sentences():
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 5, 25)
    gold = rng.integers(0, 2, lengths.sum())
    probes = noisy(rng, gold, 0.3, 3)
    found = measure(add_depths(probes, gold, lengths=lengths), samples=100, seed=7)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    destructive = (probes[2] != gold) & (probes[:2] == gold).any(0)
    naive = []
    for drawn in np.concatenate([*Bootstrap(samples=100, seed=7).draws(Groups(25))]):
        rows = np.concatenate([np.arange(offsets[e], offsets[e + 1]) for e in drawn])
        naive.append(destructive[rows].mean())
    share = by_name(found)["destructive"].share
    assert [share.low, share.high] == pytest.approx(np.quantile(naive, [0.025, 0.975]))


def test_where_sentences_have_documents_these_are_resampled():
    """And McNemar's test, which takes rows as independent, is not given."""
    rng = np.random.default_rng(3)
    documents = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    gold = rng.integers(0, 2, len(documents))
    probes = noisy(rng, gold, 0.3, 3)
    found = measure(add_depths(probes, gold, documents=documents), samples=100, seed=7)
    assert found.drawn == Drawn(12, "documents") and found.chosen.p == ()
    text = overthinking_text([found])
    assert "in brackets: 95 % bootstrap intervals over 12 documents\n" in text
    assert re.search(r"net .* %; p = [\d.e-]+ \(bootstrap\)\n", text) and "McNemar" not in text


def test_halves_cut_no_document():
    documents = np.random.default_rng(0).integers(0, 9, 60)
    one, two = halves(Groups(60, documents, "document"), 0)
    assert not set(documents[one]) & set(documents[two])
    assert (len(set(documents[one])), len(set(documents[two]))) == (5, 4)


@pytest.mark.parametrize(
    ("repairs", "breaks"), [(0, 0), (5, 5), (10, 2), (2, 10), (300, 250), (1, 0)]
)
def test_mcnemar_is_the_binomial_test(repairs, breaks):
    if repairs + breaks == 0:
        assert mcnemar(repairs, breaks) == 1
        return
    expected = binomtest(repairs, repairs + breaks, 0.5).pvalue
    assert mcnemar(repairs, breaks) == pytest.approx(expected)


def test_the_earlier_depth_is_chosen_on_dev_and_reported_on_test():
    rng = np.random.default_rng(5)
    gold, true = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    dev = np.stack([noisy(rng, gold, right) for right in (0.2, 0.9, 0.5, 0.4)])
    test = np.stack([noisy(rng, true, right) for right in (0.95, 0.7, 0.5, 0.4)])
    records = add_depths(dev, gold, tests=(test, true))
    found = measure(records)
    chosen, right = found.chosen, test == true
    assert (chosen.depths, chosen.chosen_on, found.split) == ((1,), "dev", "test")
    repairs, breaks = (right[1] & ~right[3]).sum(), (right[3] & ~right[1]).sum()
    assert chosen.counts == ((repairs, breaks),)
    assert chosen.p[0] == pytest.approx(binomtest(repairs, repairs + breaks).pvalue)
    assert chosen.net.value == pytest.approx(right[1].mean() - right[3].mean())


def test_without_a_test_split_each_half_has_the_depth_of_the_other():
    gold = np.arange(60) % 2
    one, two = halves(Groups(60), 0)
    assert one.sum() == two.sum() == 30 and not (one & two).any()
    assert not np.array_equal(one, halves(Groups(60), 1)[0])
    # depth 0 is right on the first half, depth 1 on the second: each is chosen for the other half
    predicted = np.stack([np.where(mask, gold, 1 - gold) for mask in (one, two)] + [gold])
    found = measure(add_depths(predicted, gold))
    assert set(found.chosen.depths) == {0, 1} and found.chosen.chosen_on == "halves"
    assert found.chosen.breaks.value == 1.0 and found.chosen.repairs.value == 0.0
