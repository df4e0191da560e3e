"""Shares of overthinking: planted, by an independent script, and none where there is none."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from probekit import overthinking
from probekit.results.comparison.bootstrap import draws
from probekit.results.comparison.resampled_groups import Drawn, Groups
from probekit.results.overthinking.choosers import halves
from probekit.results.overthinking.chosen_depth import mcnemar
from probekit.results.overthinking.depth_curves import depth_curves
from probekit.results.overthinking.estimates import Bootstrap
from probekit.results.overthinking.measure import read_reported
from probekit.results.overthinking.report_text import overthinking_text
from probekit.results.overthinking.shares import shares_by_depth
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


def test_planted_shares():
    # right at depths 0 to 3; of 100 texts: 30 at 1 and 3, 10 at 0 and 3, 25 at 2 alone, 20 at 3
    # alone, 15 at none
    rights = [(0, 1, 0, 1)] * 30 + [(1, 0, 0, 1)] * 10 + [(0, 0, 1, 0)] * 25
    rights += [(0, 0, 0, 1)] * 20 + [(0, 0, 0, 0)] * 15
    gold = np.arange(100) % 2
    predicted = np.where(np.array(rights).T == 1, gold, 1 - gold)
    found = measure(add_depths(predicted, gold, predicted[:3], predicted[[3, 3, 3]]))
    shares = by_name(found)
    assert found.right.value == pytest.approx(0.6)
    assert shares["wasteful"].share.value == pytest.approx(0.4)
    assert shares["destructive"].share.value == pytest.approx(0.25)
    assert shares["cumulative"].share.value == pytest.approx(0.85)
    assert shares["layers wasted"].share.value == pytest.approx((30 * 2 + 10 * 3) / 40)
    # refits of the last depth say what it says: nothing is repaired by chance
    assert shares["destructive"].chance.value == 0
    assert shares["destructive"].excess.value == pytest.approx(0.25)
    assert found.depths == (0, 1, 2, 3) and found.n_sentences == 100 and found.unit == "texts"


def test_shares_equal_an_independent_script():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5, 40)
    gold = rng.integers(0, 3, lengths.sum())
    make = lambda depths: noisy(rng, gold, 0.5, 2, depths, n_classes=3)  # noqa: E731
    probes, refits, chance = make(4), make(3), make(3)
    options = {"names": ("a", "b", "c"), "lengths": lengths}
    records = add_depths(probes, gold, refits, chance, **options)
    shares = by_name(measure(records))

    # the ten lines: from what the side files hold
    by = {(r.seed, r.depth, r.resample): predicted_by(r) for r in records}
    rows = range(len(gold))
    counts = dict.fromkeys(product(("own", "refits", "chance"), ("w", "d", "c", "layers")), 0)
    for seed, row in product((0, 1), rows):
        last = by[seed, 3, None][row] == gold[row]
        for side, at in (("own", lambda d: (d, None)), ("refits", lambda d: (d, d + 1)),
                         ("chance", lambda d: (3, d + 1))):  # fmt: skip
            good = [d for d in range(3) if by[(seed, *at(d))][row] == gold[row]]
            counts[side, "w"] += last and bool(good)
            counts[side, "d"] += not last and bool(good)
            counts[side, "c"] += last or bool(good)
            counts[side, "layers"] += 3 - good[0] if last and good else 0

    total = 2 * len(gold)
    for name, kind in (("wasteful", "w"), ("destructive", "d"), ("cumulative", "c")):
        own, refitted, by_chance = (
            counts[side, kind] / total for side in ("own", "refits", "chance")
        )
        assert shares[name].share.value == pytest.approx(own)
        assert shares[name].refitted.value == pytest.approx(refitted)
        assert shares[name].chance.value == pytest.approx(by_chance)
        assert shares[name].excess.value == pytest.approx(refitted - by_chance)
    wasted = counts["own", "layers"] / counts["own", "w"]
    assert shares["layers wasted"].share.value == pytest.approx(wasted)


def predicted_by(record):
    return HELD[Path(record.predictions)][1]["dev"].predicted


def test_guessing_is_the_mean_over_all_other_rows():
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 2, 30)
    probes, refits, chance = (noisy(rng, gold, 0.4, n) for n in (4, 3, 3))
    share = by_name(measure(add_depths(probes, gold, refits, chance)))["destructive"]
    naive = np.mean([
        probes[3, row] != gold[row] and (refits[:, other] == gold[row]).any()
        for row, other in product(range(30), range(30))
    ])  # fmt: skip
    assert share.guessing.value == pytest.approx(naive)
    assert share.beyond_guessing.value == pytest.approx(share.refitted.value - naive)


@pytest.mark.parametrize("seed", range(5))
def test_depths_that_know_nothing_do_no_better_than_guessing(seed):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, 400)
    probes, refits, chance = (rng.integers(0, 2, (n, 400)) for n in (5, 4, 4))
    found = measure(add_depths(probes, gold, refits, chance), samples=1000)
    shares = by_name(found)
    assert shares["cumulative"].share.value > 0.94  # although no depth knows anything
    assert shares["destructive"].beyond_guessing.holds_zero
    assert found.chosen.net.holds_zero


@pytest.mark.parametrize("seed", range(5))
def test_depths_that_say_what_the_last_says_do_not_exceed_chance(seed):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, 400)
    last = noisy(rng, gold, 0.6)
    flipped = lambda n: np.where(rng.random((n, 400)) < 0.05, 1 - last, last)  # noqa: E731
    found = measure(add_depths([*flipped(4), last], gold, flipped(4), flipped(4)), samples=1000)
    assert all(share.excess.holds_zero for share in found.shares)
    assert by_name(found)["destructive"].share.low > 0


def test_intervals_are_those_of_resampled_sentences():
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 5, 25)
    gold = rng.integers(0, 2, lengths.sum())
    probes, refits, chance = (noisy(rng, gold, 0.3, n) for n in (3, 2, 2))
    found = measure(add_depths(probes, gold, refits, chance, lengths=lengths), samples=100, seed=7)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    destructive = (probes[2] != gold) & (probes[:2] == gold).any(0)
    naive = []
    for drawn in (row for block in draws(Groups(25), 100, 7) for row in block):
        rows = np.concatenate([np.arange(offsets[e], offsets[e + 1]) for e in drawn])
        naive.append(destructive[rows].mean())
    share = by_name(found)["destructive"].share
    assert [share.low, share.high] == pytest.approx(np.quantile(naive, [0.025, 0.975]))


def test_where_sentences_have_documents_these_are_resampled():
    """With the same draws, as wide as Student's t; McNemar's test, which takes rows for apart, is
    not given."""
    rng = np.random.default_rng(3)
    documents = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    gold = rng.integers(0, 2, len(documents))
    probes, refits, chance = (noisy(rng, gold, 0.3, n) for n in (3, 2, 2))
    records = add_depths(probes, gold, refits, chance, documents=documents)
    found = measure(records, samples=100, seed=7)
    destructive = (probes[2] != gold) & (probes[:2] == gold).any(0)
    groups = Groups(len(gold), documents, "document")
    naive = np.array([
        destructive[np.concatenate([np.flatnonzero(documents == one) for one in row])].mean()
        for block in draws(groups, 100, 7)
        for row in block
    ])  # fmt: skip
    wide = naive.mean() + groups.stretch * (naive - naive.mean())
    share = by_name(found)["destructive"].share
    expected = np.clip(np.quantile(wide, [0.025, 0.975]), naive.min(), naive.max())
    assert [share.low, share.high] == pytest.approx(expected)
    assert found.drawn == Drawn(12, "documents") and found.chosen.p == ()
    text = overthinking_text([found])
    assert "in brackets: 95 % bootstrap intervals over 12 documents\n" in text
    assert re.search(r"net .* %; p = [\d.e-]+ \(bootstrap\)\n", text) and "McNemar" not in text


def test_halves_cut_no_document():
    documents = np.random.default_rng(0).integers(0, 9, 60)
    one, two = halves(Groups(60, documents, "document"), 0)
    assert not set(documents[one]) & set(documents[two])
    assert (len(set(documents[one])), len(set(documents[two]))) == (5, 4)


def test_shares_by_depth_end_in_the_shares():
    rng = np.random.default_rng(4)
    gold = rng.integers(0, 2, 50)
    probes, refits, chance = (noisy(rng, gold, 0.4, n) for n in (5, 4, 4))
    records = add_depths(probes, gold, refits, chance)
    shares = by_name(measure(records))
    (curve,) = depth_curves(records, refits=True)
    grown = shares_by_depth(read_reported(curve, None)[0], Bootstrap(samples=100))
    for growing, share in (
        (grown.cumulative, shares["cumulative"]),
        (grown.destructive, shares["destructive"]),
    ):
        for level in ("refitted", "chance", "guessing"):
            assert getattr(growing, level)[-1].value == pytest.approx(getattr(share, level).value)
    right = [(refits[: n + 1] == gold).any(0) for n in range(4)]
    cumulative = [one.value for one in grown.cumulative.refitted]
    assert cumulative[:4] == pytest.approx([one.mean() for one in right])
    assert [one.value for one in grown.right] == pytest.approx((probes == gold).mean(1))


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
    records = add_depths(dev, gold, dev[:3], dev[[3, 3, 3]], tests=(test, true))
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
    found = measure(add_depths(predicted, gold, predicted[:2], predicted[[2, 2]]))
    assert set(found.chosen.depths) == {0, 1} and found.chosen.chosen_on == "halves"
    assert found.chosen.breaks.value == 1.0 and found.chosen.repairs.value == 0.0


def test_examples_are_destructive_first_and_seeded():
    rng = np.random.default_rng(6)
    gold = rng.integers(0, 2, 40)
    probes = np.stack([gold, gold, gold])
    probes[2, 5], probes[2, 9], probes[0, 9] = 1 - gold[5], 1 - gold[9], 1 - gold[9]
    records = add_depths(probes, gold, probes[:2], probes[[2, 2]])
    examples = measure(records, examples=4).examples
    assert {one.id for one in examples[:2]} == {"dev-5", "dev-9"}
    assert examples == measure(records, examples=4).examples
    shown = next(one for one in examples if one.id == "dev-9")
    names = ("no", "yes")
    (row,) = shown.rows
    assert row.predicted == tuple(names[n] for n in probes[:, 9]) and row.kind == "destructive"
    assert row.probability == pytest.approx([0.8] * 3, abs=1e-3)
    assert shown.text == "w9" and row.gold == names[gold[9]] and row.word is None
