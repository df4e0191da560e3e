"""Every figure says how many seeds it is over, and what is wrong with some of its runs."""

import pytest

from probekit.plots import PLOTS
from probekit.results.summaries.wording import seeds_text
from tests.plots.test_figures import one_panel
from tests.results.samples import make_record


@pytest.mark.parametrize(
    ("counts", "text"),
    [([1, 1], "one seed"), ([5, 5], "5 seeds"), ([5, 3, 4], "3 to 5 seeds")],
    ids=str,
)
def test_seeds(counts, text):
    assert seeds_text(counts) == text


def _texts(figure):
    """Return what the figure says of what is drawn: legends' titles, labels and notes."""
    found = [legend.get_title().get_text() for legend in figure.legends]
    found.append(figure.get_supxlabel())
    return " ".join([*found, *(axes.get_xlabel() for axes in figure.axes)]).replace("\n", " ")


def _said(figure):
    texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return " ".join([_texts(figure), *texts]).replace("\n", " ")


@pytest.mark.parametrize("kind", sorted(PLOTS))
def test_every_figure_says_how_many_seeds_and_what_is_wrong_with_some_runs(kind):
    records = one_panel(kind)
    object.__setattr__(records[-1], "diverged", True)
    object.__setattr__(records[-1], "diagnosis", {"converged": False})
    figure = PLOTS[kind](records)
    assert "3 seeds" in _texts(figure)
    assert _texts(figure).count(f"; 1 of {len(records)} runs diverged") == 1
    assert _said(figure).count("not converged") == 1
    if not figure.legends:  # figures of rows: an asterisk stands in a name
        axes = figure.axes[0]
        names = [axes.get_title(), *(t.get_text() for t in axes.get_yticklabels())]
        assert any("*" in name for name in names)


@pytest.mark.parametrize("kind", ["depth", "exit", "weights"])
def test_where_nothing_is_wrong_nothing_is_said(kind):
    figure = PLOTS[kind](one_panel(kind))
    assert "3 seeds" in _texts(figure)
    assert "diverged" not in _texts(figure) and "converged" not in _said(figure)


@pytest.mark.parametrize("kind", ["weights", "attention"])
def test_runs_that_diverged_without_weights_are_counted(kind):
    records = one_panel("attention")
    lost = {"weights": {}, "class_weights": {}, "diverged": True}
    records += [make_record("dwatt", 3, **lost), make_record("last", 3, **lost)]
    text = _texts(PLOTS[kind](records))
    assert "3 seeds; 1 of 4 runs diverged" in text
