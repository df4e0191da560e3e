"""Curves over shots and shares of train: places, intervals, grounds."""

import numpy as np
import pytest

from probekit import plot_fewshot, plot_fraction
from probekit.errors import RecordError
from tests.plots.samples import (
    fewshot_records,
    fraction_records,
    legend_texts,
    legend_title,
    sample_records,
)
from tests.results.samples import make_record


@pytest.mark.parametrize(
    ("plot", "option", "amounts"),
    [(plot_fewshot, "shots", (8, 16, 32)), (plot_fraction, "fraction", (0.1, 0.5, 1.0))],
)
def test_hollow_points_of_amounts_lie_on_their_curve(plot, option, amounts):
    records = [
        make_record(head, seed, **{option: n}, diagnosis={"best_is_last": n == amounts[0]})
        for head in ("last", "p32")
        for seed in range(2)
        for n in amounts
    ]
    figure = plot(records)
    lines = figure.axes[0].lines
    hollow = [line for line in lines if line.get_markerfacecolor() == "white"]
    curves = [line for line in lines if len(line.get_xdata()) == 3]
    assert len(hollow) == len(curves) == 2
    for mark, curve in zip(hollow, curves, strict=True):
        assert mark.get_xydata().tolist() == [curve.get_xydata()[0].tolist()]
    assert "hollow: best score is that of the last step" in legend_texts(figure)


def test_fewshot_axis_and_intervals():
    axes = plot_fewshot(fewshot_records(heads=("last",))).axes[0]
    label = " ".join(axes.get_xlabel().split())
    assert label == "shots K (K x classes sentences, drawn at random)"
    assert axes.get_xscale() == "log"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["8", "32", "128"]
    curve, *bars = axes.lines
    assert curve.get_xdata().tolist() == [8, 32, 128]
    assert len(bars) == 3
    assert np.mean(bars[0].get_ydata()) == pytest.approx(curve.get_ydata()[0])


def test_points_of_one_amount_stand_beside_each_other_on_lines_of_their_own_slope():
    heads = ("last", "p32", "dwatt")
    axes = plot_fewshot(fewshot_records(heads=heads, seeds=2)).axes[0]
    curves = [line for line in axes.lines if len(line.get_xdata()) == 3]
    shifts = [np.log2(line.get_xdata() / np.array([8, 32, 128])) for line in curves]
    for own in shifts:  # a line is moved as a whole, so that its slope is that of its scores
        assert own == pytest.approx([own[0]] * 3)
    assert [own[0] for own in shifts] == pytest.approx([-0.08, 0, 0.08])


def test_points_of_one_seed_stand_where_they_belong_without_intervals():
    figure = plot_fewshot(fewshot_records(heads=("last", "p32"), seeds=1))
    lines = figure.axes[0].lines
    assert [line.get_xdata().tolist() for line in lines] == [[8, 32, 128]] * 2
    says = "no interval: one seed and no stored predictions; run again with --predictions"
    assert legend_title(figure) == says


@pytest.mark.parametrize(
    ("plot", "option", "amounts", "texts"),
    [
        (plot_fewshot, "shots", (0, 8, 32), ["0", "8", "32"]),
        (plot_fraction, "fraction", (0.0, 0.25, 1.0), ["0", "25", "100"]),
    ],
)
def test_nothing_to_train_on_stands_left_of_the_least(plot, option, amounts, texts):
    axes = plot([make_record(**{option: amount}) for amount in amounts]).axes[0]
    least, most = amounts[1:]
    assert axes.lines[0].get_xdata().tolist() == [least / 4, least, most]
    assert [t.get_text() for t in axes.get_xticklabels()] == texts
    assert axes.get_xlim()[0] < least / 4


def test_fraction_axis_is_in_percent_and_its_labels_do_not_collide():
    figure = plot_fraction(fraction_records(heads=("last",)))
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "share of the training split (%)"
    assert axes.lines[0].get_xdata().tolist() == [0.01, 0.05, 0.2, 0.25, 1.0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "5", "", "25", "100"]


def test_all_of_train_stands_at_100_percent_beside_its_fractions():
    parts = [r for f in (0.2, 0.4, 0.6, 0.8) for r in sample_records(heads=("last",), fraction=f)]
    whole = make_record("last", test_score=0.99)
    axes = plot_fraction([*parts, whole, make_record("p32", test_score=0.1)]).axes[0]
    curve, *_ = axes.lines
    assert curve.get_xdata().tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert curve.get_ydata()[-1] == pytest.approx(99)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["20", "40", "60", "80", "100"]
    assert [t.get_text() for t in axes.figure.legends[0].get_texts()] == ["last"]  # no lone point
    asked = plot_fraction([*parts, whole, make_record("last", test_score=0.5, fraction=1.0)])
    assert asked.axes[0].lines[0].get_ydata()[-1] == pytest.approx(50)


def test_one_amount_is_no_curve():
    with pytest.raises(RecordError, match="--shots 8,16,32,64,128"):
        plot_fewshot([make_record(shots=8), make_record()])
    with pytest.raises(RecordError, match=r"--fraction 0\.01,0\.1,1"):
        plot_fraction([make_record(fraction=0.5), make_record("last")])


def test_points_of_neighbouring_amounts_do_not_mix():
    records = [r for k in (8, 10) for r in sample_records(("last", "p32"), shots=k, seeds=2)]
    axes = plot_fewshot(records).axes[0]
    at_8, at_10 = np.transpose(
        [line.get_xdata() for line in axes.lines if line.get_linewidth() > 1]
    )
    assert max(at_8) < 9 < min(at_10)
