"""Curves over depth and training: points, intervals, axes."""

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from probekit import plot_depth, plot_exit, plot_fewshot, plot_fraction, plot_learning
from probekit.errors import RecordError, UnknownNameError
from probekit.results.comparison import best_depths
from probekit.results.tables import depth_table
from tests.plots.samples import fewshot_records, legend_texts, sample_records
from tests.results.overthinking.held import add_depths
from tests.results.samples import make_record


def test_depth_curve_and_its_best():
    scores = {0: 0.5, 1: 0.75, 2: 0.625}
    records = [
        make_record("last", seed, depth=depth, eval_score=score + seed / 16)
        for depth, score in scores.items()
        for seed in (0, 1)
    ]
    axes = plot_depth(records, split="dev").axes[0]
    curve, ring, within = axes.lines
    assert curve.get_xdata().tolist() == [0, 1, 2]
    assert within.get_xydata().tolist() == ring.get_xydata().tolist()
    assert curve.get_ydata().tolist() == [53.125, 78.125, 65.625]
    assert ring.get_xydata().tolist() == [[1, 78.125]]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == 100 and band.min() == pytest.approx(53.125 - 12.7062 * 3.125, rel=1e-4)
    assert axes.get_xlabel() == "layer (0 = emb)"


@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_ring_is_at_the_best_depth_of_dev_whatever_is_drawn(split):
    scores = [(0.5, 0.9), (0.7, 0.4), (0.6, 0.8)]
    records = [
        make_record("last", depth=depth, eval_score=dev, test_score=test)
        for depth, (dev, test) in enumerate(scores)
    ]
    figure = plot_depth(records, split=split)
    _, ring, _ = figure.axes[0].lines
    assert ring.get_xydata().tolist() == [[1, 70 if split == "dev" else 40]]
    assert legend_texts(figure) == [
        "last",
        "best depth on dev",
        "within noise of it (exact ties only)",
    ]


def test_ties_are_ties_and_stand_apart_or_together():
    scores = [0.5, 0.75, 0.7, 0.75, 0.75]
    records = [make_record("last", depth=d, eval_score=s) for d, s in enumerate(scores)]
    axes = plot_depth(records, split="dev").axes[0]
    curve, ring, alone, together = axes.lines
    assert ring.get_xdata() == [1]
    assert alone.get_xydata().tolist() == [[1, 75]] and alone.get_marker() == "o"
    assert together.get_xydata().tolist() == [[3, 75], [4, 75]]
    assert together.get_linewidth() > 3 * curve.get_linewidth()
    assert together.get_color() == alone.get_color() == curve.get_color()
    assert together.get_zorder() < curve.get_zorder() and together.get_alpha() < 1


def test_depths_within_noise_are_those_of_the_table():
    rng = np.random.default_rng(0)
    records = [
        make_record(head, seed, depth=depth, eval_score=0.6 - 0.005 * (depth - 4) ** 2 + noise)
        for head in ("last", "p32")
        for seed in range(5)
        for depth, noise in enumerate(rng.normal(0, 0.01, 9))
    ]
    figure = plot_depth(records, split="dev")
    best = best_depths(records)
    lines = iter(figure.axes[0].lines)
    for found in best.values():
        assert 1 < len(found.within) < 9
        next(lines), next(lines)
        drawn = [next(lines).get_xdata() for _ in found.runs]
        assert [int(depth) for run in drawn for depth in run] == list(found.within)
    assert "within noise of it (paired over 5 seeds)" in legend_texts(figure)
    rows = [json.loads(line) for line in depth_table(records, "dev").text("jsonl").splitlines()]
    for name, found in best.items():
        own = [row for row in rows if row["series"].startswith(name) and "within_noise" in row]
        assert tuple(row["layer"] for row in own if row["within_noise"]) == found.within


def test_points_of_runs_with_a_trouble_are_hollow():
    records = [
        make_record("p32", seed, depth=depth, diagnosis={"converged": (depth, seed) != (2, 1)})
        for depth in range(4)
        for seed in range(3)
    ]
    figure = plot_depth(records, split="dev")
    curve, hollow, *_ = figure.axes[0].lines
    assert hollow.get_xdata().tolist() == [2]
    assert hollow.get_ydata().tolist() == [curve.get_ydata()[2]]
    assert hollow.get_markerfacecolor() == "white"
    assert hollow.get_markeredgecolor() == curve.get_color()
    assert hollow.get_marker() == curve.get_marker() and hollow.get_linestyle() == "None"
    assert hollow.get_zorder() > curve.get_zorder()
    assert "hollow: not converged" in legend_texts(figure)
    fine = plot_depth([make_record("p32", depth=depth) for depth in range(4)])
    assert not any("hollow" in text for text in legend_texts(fine))


def test_all_points_of_a_troubled_run_are_hollow_in_its_learning_curve():
    figure = plot_learning([make_record("p32", select="dev", test_score=None), make_record("last")])
    hollow = [x for x in figure.axes[0].lines if x.get_markerfacecolor() == "white"]
    assert [line.get_xdata().tolist() for line in hollow] == [[10, 20, 30, 40, 50]]
    assert "hollow: selected on the reported split" in legend_texts(figure)


def test_a_panel_may_hold_the_embeddings_alone():
    deep = [make_record("last", depth=depth) for depth in (0, 1)]
    flat = [make_record("last", depth=0, task="wnut17")]
    figure = plot_depth([*deep, *flat])
    assert sorted(axes.lines[0].get_xdata().tolist() for axes in figure.axes) == [[0], [0, 1]]


@pytest.mark.parametrize(("top", "last_label"), [(6, 6), (24, 24), (22, 21)])
def test_layer_axis_labels_at_most_nine(top, last_label):
    figure = plot_depth(sample_records(("last",), seeds=1, n_blocks=top, depths=range(top + 1)))
    axes = figure.axes[0]
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert ticks[0] == 0 and ticks[-1] == last_label and len(ticks) <= 9


def _perplexities(low, high):
    scores = {depth: high * (low / high) ** (depth / 4) for depth in range(5)}
    return [
        make_record("last", s, depth=d, metric="perplexity", eval_score=score + s * low / 8)
        for d, score in scores.items()
        for s in (0, 1)
    ]


def test_perplexity_is_raw_and_best_where_it_is_lowest():
    axes = plot_depth(_perplexities(20.0, 100.0), split="dev").axes[0]
    curve, ring, _ = axes.lines
    assert axes.get_ylabel() == "dev perplexity" and axes.get_yscale() == "linear"
    assert curve.get_ydata()[0] == pytest.approx(101.25)
    assert ring.get_xdata() == [4]


@pytest.mark.parametrize("plot", [partial(plot_depth, split="dev"), plot_learning])
def test_perplexities_far_apart_have_a_logarithmic_axis(plot):
    records = _perplexities(20.0, 30000.0)
    if plot is plot_learning:
        records = [make_record(metric="perplexity", curve=[(1, 9, 30000), (2, 3, 20)])]
    axes = plot(records).axes[0]
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log"
    ends = [path.vertices[:, 1] for one in axes.collections for path in one.get_paths()]
    lowest, highest = min([20, *map(min, ends)]), max([30000, *map(max, ends)])
    assert lowest / 2 < low < lowest and highest < high < highest * 2
    axes.figure.draw_without_rendering()
    assert "1000" in [text.get_text() for text in axes.get_yticklabels()]


@pytest.mark.parametrize(
    ("start", "decades"), [(1.0, 1.5), (27.5, 3.5), (1.0, 3.7), (27.5, 9), (1.0, 40), (27.5, 120)]
)
def test_a_logarithmic_axis_has_a_few_labels_that_do_not_collide(start, decades):
    axes = plot_depth(_perplexities(start, start * 10**decades), split="dev").axes[0]
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    ticks = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    labels = [text for tick, text in ticks if low <= tick <= high]
    assert 2 <= len(labels) <= 14 and all(text.get_text() for text in labels)
    boxes = [text.get_window_extent() for text in labels]
    assert all(lower.y1 < upper.y0 for lower, upper in pairwise(boxes))


def test_one_depth_is_no_curve():
    with pytest.raises(RecordError, match="at least two depths; run `probekit depth`"):
        plot_depth([make_record(depth=3), make_record()])


@pytest.mark.parametrize(
    ("metric", "scores", "low"),
    [("span-f1", (0.1, 0.9), 0.0), ("spearman", (0.05, 0.06), 5.5 - 6.353)],
)
def test_an_interval_stays_within_what_a_score_can_be(metric, scores, low):
    """Of few seeds it is wide; that of a correlation may be negative."""
    records = [
        make_record("last", seed, shots=k, metric=metric, eval_score=score)
        for k in (8, 16)
        for seed, score in enumerate(scores)
    ]
    for line in plot_fewshot(records, split="dev").axes[0].lines[1:]:
        assert line.get_ydata()[0] == pytest.approx(low, abs=0.001)
        assert line.get_ydata()[1] <= 100


@pytest.mark.parametrize(
    ("along", "x"), [("step", [10, 20, 30, 40, 50]), ("epoch", [1, 2, 3, 4, 5])]
)
def test_learning_curve(along, x):
    records = [make_record("p32", seed) for seed in (0, 1)]
    curve = plot_learning(records, along=along).axes[0].lines[0]
    assert curve.get_xdata().tolist() == x
    expected = np.mean([[score for _, _, score in r.curve] for r in records], axis=0)
    assert curve.get_ydata() == pytest.approx(100 * expected)


@pytest.mark.parametrize(
    ("selects", "scored"),
    [
        (["dev", "nested:5"], "dev"),
        (["hold-out:0.1 by prompt", "held-out"], "held-out"),
        (["dev", "hold-out:0.1"], "dev or held-out"),
    ],
)
def test_a_learning_curve_says_whose_scores_it_shows(selects, scored):
    heads = ("last", "p32")
    records = [make_record(head, select=one) for head, one in zip(heads, selects, strict=True)]
    assert plot_learning(records).axes[0].get_ylabel() == f"{scored} span F1 (%)"


def test_loss_against_seconds():
    records = [make_record("p32", seed, train_seconds=2.0 + seed) for seed in (0, 1)]
    (axes,) = plot_learning(records, along="seconds", of="loss").axes
    curve = axes.lines[0]
    assert curve.get_xdata() == pytest.approx([0.5, 1, 1.5, 2, 2.5])  # of 50 steps in 2 and 3
    expected = np.mean([[loss for _, loss, _ in r.curve] for r in records], axis=0)
    assert curve.get_ydata() == pytest.approx(expected)
    assert axes.get_xscale() == "log" and axes.get_ylabel() == "train loss (nats)"


def test_shots_have_their_own_panels_in_learning():
    titles = [
        axes.get_title().split() for axes in plot_learning(fewshot_records(heads=("last",))).axes
    ]
    assert titles == [f"tiny-model, conll, ner, {k} shots".split() for k in (8, 32, 128)]


def test_unknown_learning_axis():
    with pytest.raises(UnknownNameError, match="Did you mean 'epoch'"):
        plot_learning(sample_records(), along="epochs")
    with pytest.raises(UnknownNameError, match="unknown learning curve 'losses'"):
        plot_learning(sample_records(), of="losses")


def test_learning_needs_a_curve():
    with pytest.raises(RecordError, match="evals = 2"):
        plot_learning([make_record(curve=[(1, 0.5, 0.5)])])


@pytest.mark.parametrize(
    ("draw", "option", "values"),
    [
        (plot_depth, "depth", (1, 2)),
        (plot_fewshot, "shots", (8, 16)),
        (plot_fraction, "fraction", (0.1, 0.5)),
    ],
)
def test_test_is_shown_where_all_the_records_have_it(draw, option, values):
    """Dev chose strengths and checkpoints, so that its scores are too good."""
    pairs = zip(values, (0.25, 0.5), strict=True)
    records = [make_record("last", test_score=score, **{option: n}) for n, score in pairs]
    axes = draw(records).axes[0]
    assert axes.get_ylabel() == "test span F1 (%)"
    assert list(axes.lines[0].get_ydata()) == [25, 50]
    untested = [replace(record, test_score=None) for record in records]
    assert draw([untested[0], records[1]]).axes[0].get_ylabel() == "dev span F1 (%)"
    with pytest.raises(RecordError, match="none of 2 records has a test score; extract the test"):
        draw(untested, split="test")
    with pytest.raises(UnknownNameError, match="unknown split 'tset'"):
        draw(records, split="tset")


def test_exits_of_one_metric_share_an_axis_that_ends_at_what_a_score_can_be():
    gold = np.arange(40) % 2
    half = np.where(np.arange(40) < 20, gold, 0)
    perfect = add_depths(np.stack([gold] * 3), gold, task="own")
    (alone,) = plot_exit(perfect).axes
    alone.figure.draw_without_rendering()
    assert alone.get_ylim()[1] < 100.5 and max(alone.get_yticks()[:-1]) <= 100
    figure = plot_exit([*perfect, *add_depths(np.stack([half, half, gold]), gold)])
    one, two = figure.axes
    assert one.get_ylim() == two.get_ylim()
    low, high = one.get_ylim()
    assert all(
        low < y < high for axes in (one, two) for line in axes.lines for y in line.get_ydata()
    )
