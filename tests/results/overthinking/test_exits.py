"""Early exit: planted layers are saved, every rule as a loop over sentences has it."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from probekit import early_exit
from probekit.errors import OptionError
from probekit.metrics import METRICS, Gold
from probekit.results.overthinking.depth_predictions import depth_curves, read_reported
from probekit.results.overthinking.early_exit import RULES, exit_text, exits, oracle
from probekit.results.summaries.interval import Drawn
from tests.results.overthinking.held import HELD, add

TAGS = ("O", "B-PER", "I-PER")


def measure(records, **options):
    (found,) = early_exit(records, **{"samples": 100} | options)
    return {point.rule: point for point in found.points}, found


def planted(rows=120, depths=5, known_from=2, lost_at=5, **options):
    """Return records that are right and sure at some depths, and guess at others, unsurely."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, rows)
    records = []
    for depth in range(depths):
        knows = known_from <= depth < lost_at
        predicted = gold if knows else rng.integers(0, 2, rows)
        own = {"depth": depth, "seen": {"blocks": depths - 1}} | options
        records.append(add(predicted, gold, confidence=0.95 if knows else 0.55, **own))
    return records


def test_exit_saves_the_planted_layers():
    points, found = measure(planted())
    assert points["last"].layers.value == 4 and points["last"].saved.value == 0
    for rule in ("confidence", "fixed"):
        assert points[rule].layers.value == 2 and points[rule].saved.value == 0.5
        assert points[rule].score.value == 1 and points[rule].loss.value == 0
    assert points["fixed"].thresholds == ("depth 2",)
    # guesses agree by chance with what comes before, so that some leave while it is guessed
    assert 2 < points["patience"].layers.value <= 4
    assert points["oracle"].layers.value < 2 and points["oracle"].score.value == 1
    assert found.chosen_on == "halves" and found.n_sentences == 120


def test_where_sentences_have_documents_intervals_are_over_these():
    documents = np.arange(120) // 8
    _, plain = measure(planted())
    _, found = measure(planted(documents=documents))
    assert (plain.drawn, found.drawn) == (Drawn(120), Drawn(15, "documents"))
    text = exit_text([found])
    assert text.count("95 % bootstrap intervals over 15 documents\n") == 1
    assert "120 sentences, one seed" in text


def test_a_rule_may_be_as_bad_as_a_last_depth_that_has_lost_something():
    points, _ = measure(planted(lost_at=3))  # depth 2 alone is right
    for rule in ("confidence", "fixed"):
        assert points[rule].layers.value < 2 and points[rule].score.value < 0.7


def tagging(seeds=2):
    """Return records of tags in sentences, some without rows, on dev and test."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 5, 30)
    gold, true = rng.integers(0, 3, (2, lengths.sum()))
    records = []
    for seed in range(seeds):
        for depth in range(4):
            guess = rng.integers(0, 3, (2, lengths.sum()))
            right = rng.random((2, lengths.sum())) < 0.3 + 0.2 * depth
            dev, test = np.where(right, (gold, true), guess)
            sure = rng.uniform(0.34, 0.99, lengths.sum())
            own = {"names": TAGS, "lengths": lengths, "metric": "span-f1", "confidence": sure}
            own |= {"depth": depth, "seed": seed, "seen": {"blocks": 3}}
            records.append(add(dev, gold, test=(test, true), **own))
    return records


@pytest.mark.parametrize("rule", [*RULES, "oracle"])
def test_exits_equal_an_independent_script(rule):
    records = tagging()
    (curve,) = depth_curves(records)
    reported, _ = read_reported(curve, "test")
    threshold = {"confidence": 0.6, "patience": 1, "fixed": 2, "oracle": None}[rule]
    for seed in (0, 1):
        files = [HELD[Path(r.predictions)][1]["test"] for r in records if r.seed == seed]
        ours = oracle(reported, seed)
        if rule != "oracle":
            ours = exits(RULES[rule].signal(reported, seed), threshold)
        offsets = files[0].offsets
        for e in range(30):
            rows, place, streak = slice(offsets[e], offsets[e + 1]), 3, 0
            right = [(one.predicted[rows] == one.gold[rows]).sum() for one in files]
            if not files[0].gold[rows].size:
                continue  # no word is predicted, and the sentence does not count
            for depth, one in enumerate(files):
                p = one.probabilities[rows].astype(float)
                same = depth and (one.predicted[rows] == files[depth - 1].predicted[rows]).all()
                streak = streak + 1 if same else 0
                leaves = {
                    "confidence": (p.max(1) >= 0.6).all(), "patience": streak >= 1,
                    "fixed": depth == 2, "oracle": 0 < right[depth] == max(right),
                }[rule]  # fmt: skip
                if leaves:
                    place = depth
                    break
            assert ours[e] == place


def test_score_and_layers_are_those_of_mixed_predictions():
    records = tagging(seeds=1)
    points, found = measure(records, tolerance=0.05)
    assert found.split == "test" and found.chosen_on == "dev"
    files = [HELD[Path(r.predictions)][1] for r in records]
    offsets = files[0]["test"].offsets
    held = np.diff(offsets) > 0

    def mixed(split, threshold):
        places = []
        for a, b in pairwise(offsets):
            sure = [f[split].probabilities[a:b].max(1).min(initial=1) for f in files[:-1]]
            places.append(next((d for d, s in enumerate(sure) if s >= threshold), 3))
        rows = np.repeat(places, np.diff(offsets))
        predicted = np.array([files[d][split].predicted[r] for r, d in enumerate(rows)])
        score = METRICS["span-f1"](Gold(files[0][split].gold, offsets, TAGS)).score(predicted)
        return score["span-f1"], np.array(places)[held].mean()

    (curve,) = (one for one in found.curves if one.rule == "confidence")
    assert curve.layers[-1] == 3 and curve.scores[-1] == pytest.approx(points["last"].score.value)
    (text,) = points["confidence"].thresholds
    sure = [f["dev"].probabilities.max(1) for f in files[:-1]]
    least = [np.minimum.reduceat(one.astype(float), offsets[:-1][held]) for one in sure]
    grid = [*np.quantile(np.stack(least), np.linspace(0, 1, 41)), np.inf]
    outcomes = [mixed("dev", threshold) for threshold in grid]
    reference = outcomes[-1]
    allowed = [
        (layers, -score, n)
        for n, (score, layers) in enumerate(outcomes)
        if score >= reference[0] - 0.05
    ]
    best = grid[min(allowed)[2]]
    assert text == ("never" if np.isinf(best) else f">= {best:.3f}")
    score, layers = mixed("test", best)
    assert points["confidence"].score.value == pytest.approx(score)
    assert points["confidence"].layers.value == pytest.approx(layers)
    assert points["confidence"].saved.value == pytest.approx(1 - layers / 3)
    assert points["confidence"].loss.value == pytest.approx(points["last"].score.value - score)


def test_no_loss_is_a_tolerance_and_a_negative_one_is_not():
    points, _ = measure(planted(), tolerance=0.0)
    assert points["fixed"].layers.value == 2
    with pytest.raises(OptionError, match="--tolerance"):
        early_exit(planted(), tolerance=-0.1)
