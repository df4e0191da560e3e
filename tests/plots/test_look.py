"""Width, title, font size and axes of one's own, in every figure."""

import pickle
from inspect import signature

import pytest
from matplotlib.figure import Figure

from probekit import Look, plot_depth, plot_fewshot, plot_weights
from probekit.errors import OptionError
from probekit.plots import PLOTS
from probekit.plots.naming import wrap
from probekit.plots.style import RC
from tests.plots.samples import fewshot_records, sample_records, titles_of
from tests.plots.test_figures import one_panel


@pytest.mark.parametrize("name", PLOTS)
def test_every_figure_takes_a_look_and_axes(name):
    parameters = signature(PLOTS[name]).parameters
    assert {"look", "ax"} <= set(parameters)
    records = one_panel(name)
    figure = PLOTS[name](records, look=Look(width=3.3, title="A title", font_size=12))
    assert figure.get_figwidth() == 3.3
    texts = [axes.get_title() for axes in figure.axes] + [figure.get_suptitle()]
    assert [text for text in texts if text] == ["A title"]
    assert figure.axes[0].title.get_fontsize() == figure.axes[0].xaxis.label.get_fontsize() == 12
    ticks = figure.axes[0].get_xticklabels()[0].get_fontsize()
    assert ticks == pytest.approx(12 / RC["font.size"] * RC["xtick.labelsize"])
    figure.draw_without_rendering()
    box = figure.get_tightbbox(figure.canvas.get_renderer())  # inches
    assert box.x0 > -0.01 and box.x1 < 3.31
    figure.axes[0].set_title("mine")  # takes the place of the one that is there
    titles = [figure.axes[0].get_title(loc=loc) for loc in ("left", "center", "right")]
    assert titles == ["", "mine", ""]
    assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)


@pytest.mark.parametrize("name", PLOTS)
def test_axes_of_ones_own(name):
    records = one_panel(name)
    own = Figure(figsize=(8, 4), layout="constrained")
    left, right = own.subplots(1, 2)
    assert PLOTS[name](records, ax=left) is own
    assert left.has_data() and not right.has_data()
    assert tuple(own.get_size_inches()) == (8, 4)
    assert left.get_title()
    if left.get_legend():
        _check_legend(left)
    message = r"one Axes per panel, 1 \(.+\), found 2; give a sequence"
    with pytest.raises(OptionError, match=message):
        PLOTS[name](records, ax=[left, right])
    with pytest.raises(OptionError, match="leave one of the two out"):
        PLOTS[name](records, ax=left, look=Look(width=3))


def _check_legend(axes):
    """A legend stands inside axes of one's own."""
    axes.figure.draw_without_rendering()
    box, around = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert around.x0 <= box.x0 and box.x1 <= around.x1
    assert around.y0 <= box.y0 and box.y1 <= around.y1


def test_several_panels_take_as_many_axes_also_of_subfigures():
    records = fewshot_records(heads=("last",)) + fewshot_records(heads=("last",), task="wnut17")
    own = Figure(figsize=(6, 3), layout="constrained")
    above, below = own.subfigures(2, 1)
    axes = [*above.subplots(1, 2), below.subplots()]
    assert plot_fewshot(records, ax=axes[:2]) is own
    assert [len(one.lines) > 0 for one in axes] == [True, True, False]
    assert axes[0].get_legend() is not None and axes[1].get_legend() is None
    with pytest.raises(OptionError, match=r"2 \(tiny-model, conll, ner; tiny-model, wnut17, ner\)"):
        plot_fewshot(records, ax=axes[0])


def test_a_title_stands_above_several_panels():
    records = fewshot_records(heads=("last",)) + fewshot_records(heads=("last",), task="wnut17")
    figure = plot_fewshot(records, look=Look(title="Both"))
    assert figure.get_suptitle() == "Both"
    assert titles_of(figure) == ["tiny-model, conll, ner", "tiny-model, wnut17, ner"]
    models = [r for model in "ab" for r in sample_records(("p32",), model=model)]
    assert plot_weights(models, look=Look(title="Both")).get_suptitle() == "Both"
    single = plot_weights(sample_records(("p32",)), look=Look(title=""))
    assert single.axes[0].get_title() == "" == single.get_suptitle()


def test_a_narrow_figure_puts_panels_below_each_other():
    records = [r for n in range(3) for r in fewshot_records(heads=("last",), task=f"t{n}", seeds=1)]
    wide, narrow = plot_fewshot(records), plot_fewshot(records, look=Look(width=3.3))
    assert len({axes.get_position().x0 for axes in narrow.axes}) == 1
    assert len({axes.get_position().x0 for axes in wide.axes}) == 3
    assert narrow.get_figheight() > 2 * wide.get_figheight()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "a width of 0 inches: give one from 1.5 to 40 inches"),
        ({"width": 330}, "a width of 330 inches"),
        ({"font_size": -1}, "a font size of -1 points: give one from 3 to 40 points"),
    ],
)
def test_sizes_that_no_figure_has(options, message):
    with pytest.raises(OptionError, match=message):
        Look(**options)


def test_a_look_is_a_look():
    with pytest.raises(OptionError, match=r"look: expected a probekit\.Look, found dict"):
        plot_depth([], look={"width": 3})


def test_a_legend_of_long_names_is_wrapped_and_whole():
    options = {"model": "m", "options": {"head.words": "-".join(["long"] * 12), "head.n": 2}}
    records = fewshot_records(heads=("last",), **options) + fewshot_records(heads=("last",))
    for width in (2.0, 6.9):
        figure = plot_fewshot(records, look=Look(width=width))
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        assert box.x0 >= -0.5 and box.x1 <= figure.bbox.x1 + 0.5 and box.y0 >= -0.5
        assert all(not box.overlaps(axes.get_window_extent()) for axes in figure.axes)


@pytest.mark.parametrize("ax", ["foo", [1], [None]])
def test_axes_are_axes(ax):
    with pytest.raises(OptionError, match=r"ax: expected an Axes, or a sequence of them, found"):
        plot_depth(sample_records(("last",), depths=(0, 1)), ax=ax)


def test_names_are_broken_between_words_where_they_fit_a_line():
    title = "attention-fusion (mpnet-base, raw), conll, demo-ner"
    for characters in range(18, 50):
        lines = wrap(title, characters).splitlines()
        assert " ".join(lines) == title and all(len(line) <= characters for line in lines)
        assert not any(line.endswith("-") for line in lines)
    assert wrap("in mpnet-base", 10) == "in\nmpnet-base"
    assert wrap("3 seeds; * not converged", 12) == "3 seeds;\n* not\nconverged"
