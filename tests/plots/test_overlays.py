"""Depth curves of models, tasks and heads in one panel, and what they are held against."""

from dataclasses import replace

import pytest

from probekit import plot_depth, plot_fewshot
from probekit.errors import UnknownNameError
from probekit.plots.depth import original_model
from tests.plots.samples import legend_texts, titles_of
from tests.results.samples import make_record

SCORES = {"a": [0.5, 0.6, 0.7], "b": [0.4, 0.8, 0.6, 0.7, 0.5]}


def _deep(model="a", head="last", **options):
    scores = SCORES.get(model, SCORES["a"])
    options |= {"model": model}
    return [
        make_record(head, seed, len(scores) - 1, depth=n, eval_score=s, test_score=s, **options)
        for n, s in enumerate(scores)
        for seed in (0, 1)
    ]


def _curves(axes):
    return {
        tuple(line.get_xdata()): line.get_ydata().tolist()
        for line in axes.lines
        if len(line.get_xdata()) > 2 and line.get_marker() not in ("None", "none", None)
    }


def test_two_models_of_different_depth_over_each_other():
    figure = plot_depth([*_deep("a"), *_deep("b")], overlay=["model"], relative=True)
    (axes,) = figure.axes
    assert legend_texts(figure)[:2] == ["a", "b"]
    assert axes.get_title() == "conll, ner, last"
    assert {x: pytest.approx(y) for x, y in _curves(axes).items()} == {
        (0, 0.5, 1): [50, 60, 70],
        (0, 0.25, 0.5, 0.75, 1): [40, 80, 60, 70, 50],
    }
    assert axes.get_xlabel() == "layer / number of blocks (0 = emb)"
    rings = [line.get_xydata().tolist() for line in axes.lines if line.get_markersize() == 8]
    assert rings == [[[1, 70]], [[0.25, 80]]]
    absolute = plot_depth([*_deep("a"), *_deep("b")], overlay=["model"]).axes[0]
    assert sorted(_curves(absolute)) == [(0, 1, 2), (0, 1, 2, 3, 4)]


def test_heads_have_panels_of_their_own_unless_they_are_overlaid_too():
    records = [r for model in "ab" for head in ("last", "p32") for r in _deep(model, head)]
    figure = plot_depth(records, overlay=["model"])
    assert titles_of(figure) == ["conll, ner, last", "conll, ner, p32"]
    both = plot_depth(records, overlay=["head", "model"])
    assert len(both.axes) == 1
    assert legend_texts(both)[:4] == ["a, last", "a, p32", "b, last", "b, p32"]
    assert titles_of(plot_depth(records)) == ["a, conll, ner", "b, conll, ner"]


def test_tasks_over_each_other_but_never_metrics():
    records = _deep(task="rte", label="label", metric="accuracy")
    records += _deep(task="sst2", label="label", metric="accuracy")
    records += _deep(task="cola", label="label", metric="matthews")
    figure = plot_depth(records, overlay=["task"])
    assert legend_texts(figure)[:3] == ["rte", "sst2", "cola"]
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["test accuracy (%)", "test Matthews correlation (%)"]


def test_an_unknown_overlay():
    with pytest.raises(UnknownNameError, match=r"unknown overlay 'models'\. Did you mean 'model'"):
        plot_depth(_deep(), overlay=["models"])


def test_panels_of_one_metric_share_one_y_axis():
    pos = {"label": "pos", "metric": "accuracy"}
    figure = plot_depth([*_deep("a"), *_deep("b"), *_deep("b", task="wnut17"), *_deep("a", **pos)])
    by_label = {axes.get_title(): axes for axes in figure.axes}
    f1 = [axes for title, axes in by_label.items() if "pos" not in title]
    assert len({axes.get_ylim() for axes in f1}) == 1
    assert by_label["a, conll, pos"].get_ylim() != f1[0].get_ylim()
    low, high = f1[0].get_ylim()
    assert low < 40 and high > 80
    shown = [bool(axes.get_ylabel()) for axes in figure.axes]
    numbered = [axes.yaxis.get_tick_params()["labelleft"] for axes in figure.axes]
    assert shown == numbered and shown.count(False) > 0


def _guess(name, score, **options):
    plain = {"layers": (), "weights": {}, "fitter": "none", "decoder": "none"}
    return [
        make_record(name, seed, model="a", test_score=score, eval_score=score, **plain | options)
        for seed in (0, 1)
    ]


def _levels(axes):
    """Return the lines across all of some axes."""
    return [line for line in axes.lines if list(line.get_xdata()) == [0, 1]]


def test_majority_and_lexicon_are_level_lines():
    records = [*_deep(), *_guess("majority", 0.25), *_guess("memorised", 0.5)]
    records += _guess("majority", 0.9, shots=8)  # of other draws
    figure = plot_depth(records)
    levels = [line.get_ydata()[0] for line in _levels(figure.axes[0])]
    assert levels == [25, 50]
    assert legend_texts(figure)[-2:] == ["majority", "memorised"]
    assert figure.axes[0].get_ylim()[0] < 25
    assert not _levels(plot_depth(_deep()).axes[0])


def test_each_task_of_a_panel_has_its_own_majority_in_its_colour():
    records = [r for t in ("t1", "t2") for r in _deep(task=t)]
    records += _guess("majority", 0.25, task="t1") + _guess("majority", 0.375, task="t2")
    axes = plot_depth(records, overlay=["task"]).axes[0]
    levels = {line.get_ydata()[0]: line.get_color() for line in _levels(axes)}
    curves = [line.get_color() for line in axes.lines if line.get_marker() in "os"][:2]
    assert list(levels) == [25, 37.5] and len(set(levels.values())) == 2
    assert set(levels.values()) <= set(curves) | {line.get_color() for line in axes.lines}


def test_random_weights_are_a_curve_by_depth_or_a_level():
    random = [
        make_record("last", s, 2, model="x/a-random0", depth=d, test_score=0.1 * (d + 1) + 0.02 * s)
        for d in range(3)
        for s in (0, 1)
    ]
    figure = plot_depth([*_deep("org/a"), *random])
    (axes,) = figure.axes  # not a panel of its own
    (line,) = [x for x in axes.lines if x.get_marker() == "None" and len(x.get_xdata()) == 3]
    assert line.get_ydata() == pytest.approx([11, 21, 31])
    assert line.get_color() == axes.lines[0].get_color()
    assert "random weights, in the curve's colour" in legend_texts(figure)
    flat = [make_record("last", s, model="a-random3", test_score=0.25) for s in (0, 1)]
    (level,) = _levels(plot_depth([*_deep("org/a"), *flat]).axes[0])
    assert level.get_ydata()[0] == 25
    other = [make_record("p32", model="a-random3", test_score=0.25)]
    assert not _levels(plot_depth([*_deep("org/a"), *other]).axes[0])
    alone = plot_depth(random)
    assert alone.axes[0].get_title() == "a-random0, conll, ner"


@pytest.mark.parametrize(
    ("name", "original"),
    [("a-random0", "a"), ("org/a-random12", "a"), ("a", None), ("a-random", None)],
)
def test_which_model_a_random_one_stands_for(name, original):
    assert original_model(name) == original


def _outside(axes):
    """Return the ends of lines and bands along y that lie beyond the axis, or too close to it."""
    low, high = sorted(axes.get_ylim())
    room = 0.03 * (high - low)
    drawn = [line.get_ydata() for line in axes.lines if line.get_transform() == axes.transData]
    drawn += [path.vertices[:, 1] for one in axes.collections for path in one.get_paths()]
    ends = [float(end(values)) for values in drawn for end in (min, max)]
    return [end for end in ends if not low + room <= end <= high - room]


def test_a_panel_of_a_narrow_range_is_not_cut_by_the_range_of_all():
    flat, steep = (0.90, 0.9001, 0.9002), (0.5, 0.7, 0.8)
    records = [
        make_record("last", seed, 2, task=task, depth=depth, eval_score=score + seed / 500)
        for task, scores in (("conll", flat), ("wnut17", steep))
        for depth, score in enumerate(scores)
        for seed in (0, 1, 2)
    ]
    figure = plot_depth(records, split="dev")
    one, two = figure.axes
    assert one.get_ylim() == two.get_ylim()
    assert not _outside(one) and not _outside(two)
    shots = [replace(r, depth=None, shots=2 ** (3 + r.depth)) for r in records]
    assert not [end for axes in plot_fewshot(shots, split="dev").axes for end in _outside(axes)]
