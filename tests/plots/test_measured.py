"""Figures of what was measured from the predictions of every depth."""

import numpy as np
import pytest

from probekit import overthinking, plot_exit, plot_overthinking
from probekit.errors import RecordError
from probekit.plots.broken_axis import BrokenAxis
from tests.results.overthinking.held import add_depths

RNG = np.random.default_rng(0)


def _records(accuracy, often=0.5, rows=400, **options):
    """Return probes of four depths and refits that are right so often, as is the first class."""
    gold = (RNG.random(rows) > often).astype(int)

    def guesses(depths):
        right = RNG.random((depths, rows)) < accuracy
        return np.where(right, gold, 1 - gold)

    return add_depths(guesses(4), gold, guesses(3), guesses(3), **options)


def _lines(axes, marker):
    return [line.get_ydata() for line in axes.lines if line.get_marker() == marker]


def test_lines_end_at_what_the_table_calls_refitted_and_are_named_so():
    records = _records(0.7)
    figure = plot_overthinking(records)
    (axes,) = figure.axes
    (found,) = overthinking(records, samples=200)
    by_name = {share.name: share for share in found.shares}
    (right,), (cumulative,), (destructive,) = (_lines(axes, mark) for mark in "os^")
    assert cumulative[-1] == pytest.approx(100 * by_name["cumulative"].refitted.value)
    assert destructive[-1] == pytest.approx(100 * by_name["destructive"].refitted.value)
    assert right[-1] == pytest.approx(100 * found.right.value)
    legend = figure.legends[0]
    names = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    assert [name.partition(":")[0] for name in names[:3]] == [
        "right", "cumulative, refitted", "destructive, refitted"
    ]  # fmt: skip
    assert "refitted: earlier depths on a resample of train" in " ".join(
        legend.get_title().get_text().split()
    )


def test_the_legend_says_what_intervals_are_over():
    documents = np.arange(400) // 20
    records = [*_records(0.7, documents=documents), *_records(0.7, task="plain")]
    for plot in (plot_overthinking, plot_exit):
        title = " ".join(plot(records).legends[0].get_title().get_text().split())
        assert "95 % intervals over 400 sentences or 20 documents; " in title


def test_heads_without_refits_are_left_out_where_others_have_them():
    records = _records(0.7)
    mixes = [one for one in _records(0.7, head="scalar-mix") if one.resample is None]
    (axes,) = plot_overthinking([*records, *mixes]).axes
    assert axes.get_title("left").endswith("last")
    with pytest.raises(RecordError, match="scalar-mix: 6 of 6 refits"):
        plot_overthinking(mixes)


def test_shares_that_lie_far_apart_have_an_axis_without_the_empty_middle():
    figure = plot_overthinking([*_records(0.97, 0.95), *_records(0.5, task="even")])
    broken, plain = figure.axes
    if broken.get_yscale() == "linear":
        broken, plain = plain, broken
    assert (broken.get_yscale(), plain.get_yscale()) == ("function", "linear")
    drawn = np.concatenate([y for mark in "os^" for y in np.concatenate([_lines(broken, mark)])])
    points = broken.transData.transform([(0, y) for y in drawn])
    places = broken.transAxes.inverted().transform(points)[:, 1]
    assert 0 < min(places) < 0.46 and 0.54 < max(places) < 1
    spread, points = np.ptp(places[places > 0.5]), np.ptp(drawn[places > 0.5])
    assert spread > 2 * points / 102  # the axis was one from 0 to 102
    assert "grey: left out of the axis" in figure.legends[0].get_title().get_text().replace(
        "\n", " "
    )
    for axes in (broken, plain):
        low, high = axes.get_ylim()
        ends = [path.vertices[:, 1] for one in axes.collections for path in one.get_paths()]
        assert all(low <= values.min() and values.max() <= high for values in ends)


@pytest.mark.parametrize("low, high", [((0, 0), (100, 100)), ((0, 3), (80, 99)), ((1, 1), (9, 9))])
def test_parts_of_a_broken_axis(low, high):
    axis = BrokenAxis.of(low, high)
    assert axis.is_broken
    (bottom, under), (over, top) = axis.low, axis.high
    assert bottom < low[0] <= low[1] < under < over < high[0] <= high[1] < top


def test_parts_that_meet_are_one():
    assert not BrokenAxis.of((10, 30), (45, 76)).is_broken
    assert not BrokenAxis.of((10, 60), (45, 76)).is_broken
