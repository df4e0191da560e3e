"""Type I error and power of what exceeds the last depth's own probabilities, by simulation."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from probekit.metrics import METRICS, Gold
from probekit.results.comparison.resampling import Bootstrap, Groups, counts
from probekit.results.overthinking.depth_predictions import depth_curves, read_depths
from probekit.results.overthinking.shares import shares, shares_by_depth
from tests.results.overthinking.held import add_depths, probabilities_of

ROWS, EARLIER, TIMES = 600, 12, 25
CLASSES = 17
NAMES = tuple("abcdefghijklmnopq")
MOST = 3
"""Of 25 data sets that may be sure where 2.5 % are by chance: 3 or fewer in 99.7 %."""


def coins(rng, copied=0.8, hard=0.25, sure=0.5):
    """Return gold, predictions and the last depth's confidence: coins are flipped on hard rows.

    Every depth, the last too, flips one there, and copies its neighbour's flip as often as
    ``copied``; all other rows are right at every depth.
    """
    gold, is_hard = rng.integers(0, 2, ROWS), rng.random(ROWS) < hard
    flips = [rng.integers(0, 2, ROWS)]
    for _ in range(EARLIER):
        fresh = rng.integers(0, 2, ROWS)
        flips.append(np.where(rng.random(ROWS) < copied, flips[-1], fresh))
    return gold, np.where(is_hard, np.stack(flips), gold), np.where(is_hard, sure, 0.99)


def draws(rng, copied=0.8, over=1.0, known=0.0):
    """Return the same where earlier depths draw from the last one's probabilities.

    Args:
        rng: draws.
        copied: how often a depth copies the next one.
        over: what the last depth's log odds are multiplied with: above 1 it is overconfident.
        known: share of rows whose class depth 6 knows.
    """
    gold, is_hard = rng.integers(0, 2, ROWS), rng.random(ROWS) < 0.25
    size = np.where(is_hard, np.abs(rng.normal(0, 0.5, ROWS)), rng.normal(4, 1, ROWS).clip(0))
    last = np.where(rng.random(ROWS) < expit(size), gold, 1 - gold)
    found = [last]
    for depth in reversed(range(EARLIER)):
        fresh = np.where(rng.random(ROWS) < expit(size), last, 1 - last)
        own = np.where(rng.random(ROWS) < copied, found[-1], fresh)
        knows = (rng.random(ROWS) < known) & (depth == 6)
        found.append(np.where(knows, gold, own))
    return gold, np.stack(found[::-1]), expit(over * logit(expit(size)))


def guesses(rng):
    """Return the same where each earlier depth says one class of all rows, the next the other."""
    gold, predicted, confidence = draws(rng)
    predicted[:-1] = (np.arange(EARLIER) % 2)[:, None]
    return gold, predicted, confidence


def several(rng, over=1.0):
    """Return the same of many classes, with all probabilities of the last depth.

    Gold is a draw from the softmax of logits, of which earlier depths see noisy ones.

    Args:
        rng: draws.
        over: what the last depth's logits are multiplied with: below 1 it is underconfident.
    """
    logits = rng.normal(0, 1, (ROWS, CLASSES)) * rng.gamma(2, 1.25, (ROWS, 1))
    gold = (softmax(logits, 1).cumsum(1) > rng.random((ROWS, 1))).argmax(1)
    noise, predicted = rng.normal(0, 1, logits.shape), []
    for _ in range(EARLIER):
        noise = 0.7 * noise + 0.7 * rng.normal(0, 1, logits.shape)
        predicted.append((logits + 1.5 * noise).argmax(1))
    last = softmax(over * logits, 1).astype(np.float16)
    return gold, np.stack([*predicted, logits.argmax(1)]), last


def of_world(template, gold, predicted, last):
    """Return predictions like the template's with other numbers in them.

    Args:
        template: of as many classes.
        gold: the gold classes.
        predicted: by all depths.
        last: the last depth's probabilities, or those of what it predicts, of two classes.
    """
    if last.ndim == 1:
        last = probabilities_of(predicted[-1], 2, last)
    last = replace(template.found[-1][0], probabilities=last)
    offsets = template.scorer.gold.offsets
    return replace(
        template, scorer=METRICS["accuracy"](Gold(gold, offsets, template.scorer.gold.names)),
        predicted=predicted[None], found=[*template.found[:-1], [last]],
    )  # fmt: skip


class SameDraws(Bootstrap):
    """A bootstrap of 600 sentences whose draws, the same for all data sets, are made once."""

    def resample(self, groups, score):
        assert (groups.n_sentences, groups.whole) == (ROWS, None)
        return np.concatenate([score(block) for block in drawn(self)])


@cache
def drawn(bootstrap):
    groups = Groups(ROWS)
    return [counts(block, groups) for block in bootstrap.draws(groups)]


def times_sure(world, seed, **options):
    """Return in how many data sets the share, and some depth, surely exceeds what is expected."""
    rng = np.random.default_rng(seed)
    gold, predicted, last = world(rng, **options)
    n_classes = 2 if last.ndim == 1 else last.shape[1]
    (curve,) = depth_curves(add_depths(predicted, gold, names=NAMES[:n_classes]))
    template, bootstrap = read_depths(curve, "dev"), SameDraws(samples=500)
    found = np.zeros(2, int)
    for _ in range(TIMES):
        one = of_world(template, *world(rng, **options))
        excess = shares(one, bootstrap)[1].excess
        earlier = shares_by_depth(one, bootstrap).earlier
        found += [excess.low > 0, any(each.knows for each in earlier)]
    return found


@pytest.mark.parametrize(
    ("world", "options"),
    [
        (coins, {"copied": 0.95, "sure": 0.9}), (draws, {"over": 2.0}), (guesses, {}),
        (several, {}), (several, {"over": 0.5}), (several, {"over": 2.0}),
    ],
)  # fmt: skip
def test_what_knows_nothing_more_is_seldom_sure(world, options):
    assert (times_sure(world, 1, **options) <= MOST).all()


def test_where_the_last_depth_is_as_sure_of_hard_rows_as_of_easy_ones_chance_looks_like_knowing():
    """No calibration tells rows apart that have one confidence: the limit of this null."""
    assert times_sure(coins, 2, sure=0.99)[0] > TIMES / 2


def test_a_depth_that_knows_is_found():
    assert times_sure(draws, 3, known=0.4)[1] > 0.8 * TIMES
