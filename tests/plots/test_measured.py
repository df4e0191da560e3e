"""Figures of what was measured from the predictions of every depth."""

import numpy as np
import pytest

from probekit import overthinking, plot_exit, plot_overthinking
from tests.plots.samples import legend_texts, legend_title
from tests.results.overthinking.held import add_depths


def test_lines_and_marks_are_those_of_the_table():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 400)
    probes = np.where(rng.random((4, 400)) < 0.7, gold, 1 - gold)
    probes[1] = np.where(rng.random(400) < 0.9, gold, 1 - gold)  # knows more than the last depth
    records = add_depths(probes, gold)
    figure = plot_overthinking(records)
    (axes,) = figure.axes
    (found,) = overthinking(records, samples=2000)
    (right,) = (line.get_ydata() for line in axes.lines if line.get_marker() == "o")
    assert right == pytest.approx([100 * one.value for one in found.by_depth.right])
    marks = [line for line in axes.lines if line.get_marker() == "^"]
    filled = [line.get_markerfacecolor() != "white" for line in marks]
    assert [line.get_xdata()[0] for line in marks] == [0, 1, 2]
    assert filled == [one.knows for one in found.by_depth.earlier]
    assert filled[1]
    dashed = next(line for line in axes.lines if line.get_linestyle() == "--")
    expected = [100 * one.expected.value for one in found.by_depth.earlier]
    assert dashed.get_ydata() == pytest.approx(expected)
    assert legend_texts(figure) == [
        "right, of all rows",
        "right, of the rows that the last depth has wrong",
        "expected there by the last depth's own probabilities",
    ]
    assert "filled: significantly more" in legend_title(figure)


def test_the_legend_says_what_intervals_are_over():
    rng = np.random.default_rng(0)
    gold, documents = rng.integers(0, 2, 400), np.arange(400) // 20
    probes = np.where(rng.random((4, 400)) < 0.7, gold, 1 - gold)
    records = [*add_depths(probes, gold, documents=documents), *add_depths(probes, gold, task="a")]
    for plot in (plot_overthinking, plot_exit):
        says = "95 % intervals over 400 sentences or 20 documents; "
        assert says in legend_title(plot(records))
