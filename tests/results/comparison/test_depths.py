"""The best depth is dev's, and what noise cannot tell from it is within noise: planted sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from probekit.results.comparison import best_depth, best_depths, noise_text
from probekit.results.summaries.interval import Drawn, student_p
from tests.results.comparison.files import add_run, classes, losses
from tests.results.samples import make_record


def curve(scores, seeds=1, noise=0.0, **options):
    """Records of a score per depth; each seed's is moved, together and each depth by itself."""
    rng = np.random.default_rng(0)
    together = rng.normal(0, 0.05, seeds) * (seeds > 1)
    return [
        make_record(
            "last", seed, depth=depth,
            eval_score=score + together[seed] + rng.normal(0, 1) * noise, **options,
        )
        for depth, score in enumerate(scores)
        for seed in range(seeds)
    ]  # fmt: skip


def test_ties_are_ties_and_nothing_else_is_known_of_one_seed():
    found = best_depth(curve([0.5, 0.75, 0.7499, 0.75, 0.6]))
    assert (found.best, found.within, found.n_seeds, found.drawn) == (1, (1, 3), 0, None)
    assert noise_text([found]) == "exact ties only"
    assert found.runs == [[1], [3]]


def test_seeds_that_change_nothing_are_no_noise():
    records = [
        make_record("last", seed, depth=d, eval_score=score)
        for d, score in enumerate([0.5, 0.75, 0.75])
        for seed in range(5)
    ]
    found = best_depth(records)
    assert found.within == (1, 2) and found.n_seeds == 0


def test_pairs_of_seeds_tell_apart_what_moves_together():
    """Seeds move all depths by 0.05, ten times the difference, but each depth hardly by itself."""
    found = best_depth(curve([0.5, 0.595, 0.6], seeds=5, noise=1e-5))
    assert found.best == 2 and found.within == (2,) and found.n_seeds == 5


def test_pairs_of_seeds_keep_together_what_each_seed_orders_anew():
    orders = [[0.2] * 5, [60, 62, 58, 61, 59], [62, 58, 61, 59, 61], [58, 60, 61, 62, 59]]
    records = [
        make_record("last", seed, depth=depth, eval_score=score / (100 if score > 1 else 1))
        for depth, scores in enumerate(orders)
        for seed, score in enumerate(scores)
    ]
    found = best_depth(records)
    assert found.text == (
        "best on dev: layer 2; ~ within noise of it: 1 to 3 (paired over 5 seeds)"
    )


def test_the_levels_of_many_depths_are_corrected_together():
    """At 5 % each, one of forty equal depths would be left out often; together, seldom."""
    rng = np.random.default_rng(1)
    left_out = alone = 0
    for _ in range(60):
        scores = rng.normal(0.5, 0.01, (12, 5))
        records = [
            make_record("last", seed, depth=depth, eval_score=scores[depth, seed])
            for depth in range(12)
            for seed in range(5)
        ]
        found = best_depth(records)
        left_out += found.within != tuple(range(12))
        tests = [stats.ttest_rel(row, scores[found.best]).pvalue for row in scores]
        alone += any(p < 0.05 for p in tests)
    assert left_out <= 12 < alone  # the best of twelve is above its mean: more than 5 % of 60


def test_one_comparison_is_the_interval_of_student():
    values = np.random.default_rng(0).normal(0.02, 0.02, 6).tolist()
    assert student_p(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert student_p([0.1, 0.1]) == 0 and student_p([0.0, 0.0]) == 1


@pytest.fixture
def planted(tmp_path):
    """One seed: depths 2 to 4 are equally good, 0 and 1 clearly worse; all hold predictions."""
    rights = (0.2, 0.4, 0.8, 0.8, 0.8)
    return [
        add_run(tmp_path / "r.jsonl", "last", 0, classes(right, d), depth=d, key=f"depth-{d}")
        for d, right in enumerate(rights)
    ]


def test_sentences_tell_clearly_worse_depths_from_equal_ones(planted):
    assert len({record.eval_score for record in planted}) == 5, "no ties that would do the work"
    found = best_depth(planted)
    assert found.best in (2, 3, 4) and found.within == (2, 3, 4)
    assert (found.n_seeds, found.drawn) == (0, Drawn(60))
    assert noise_text([found]) == "paired over 60 sentences"
    assert best_depth(planted[::-1]) == found


def test_best_perplexity_is_the_lowest(tmp_path):
    records = [
        add_run(
            tmp_path / "r.jsonl", "last", 0, losses(mean, d), metric="perplexity",
            depth=d, key=f"depth-{d}",
        )
        for d, mean in enumerate((6.0, 2.0, 2.0))
    ]  # fmt: skip
    found = best_depth(records)
    assert found.best in (1, 2) and found.within == (1, 2)


def test_side_files_that_are_gone_leave_ties(planted, caplog):
    best = best_depth(planted).best
    Path(planted[0].predictions).unlink()
    found = best_depth(planted)
    assert (found.best, found.within) == (best, (best,))
    assert "not compared over sentences" in caplog.text and "no such file" in caplog.text


def test_both_kinds_of_noise_keep_a_depth(tmp_path):
    """Seeds are sure that depth 0 is worse by a little; sixty sentences are not."""
    file = tmp_path / "r.jsonl"
    records = []
    for seed in range(3):
        better = classes(0.8, seed)
        for depth, wrong in ((0, 1), (1, 0)):
            predicted = better.predicted.copy()
            right = np.flatnonzero((predicted == better.gold) & (predicted == 0))[:wrong]
            predicted[right] = 1
            options = {"metric": "accuracy", "depth": depth, "key": f"{depth}-{seed}"}
            found = replace(better, predicted=predicted)
            records.append(add_run(file, "last", seed, found, **options))
    found = best_depth(records)
    assert found.best == 1 and found.within == (0, 1)
    assert noise_text([found]) == "paired over 3 seeds and 60 sentences"


def test_curves_of_one_depth_have_no_best():
    records = [*curve([0.5, 0.6]), make_record("p32", depth=1)]
    assert set(best_depths(records)) == {"last"}
