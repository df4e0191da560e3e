"""What holds of every figure: nothing is clipped or mixed; seeds and troubles are said."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from matplotlib.text import Text

from probekit import plot_fewshot
from probekit.errors import RecordError
from probekit.plots import PLOTS
from probekit.plots.curves import curve_styles
from probekit.probe.heads import HEADS as ALL_HEADS
from probekit.results.summaries.wording import seeds_text
from probekit.train.baselines.guesses import GUESSES
from tests.plots.samples import (
    depth_records,
    fewshot_records,
    fraction_records,
    meshes_of,
    sample_records,
    titles_of,
)
from tests.results.samples import HEADS, make_record

LONG = "an-organisation/a-model-with-a-very-long-name-Instruct.Q4_1.gguf"

TROUBLES = dict.fromkeys(("one_class", "best_is_last", "falling"), True)
TROUBLES |= {"converged": False, "edge": "strongest"}

SAMPLES = {
    "weights": sample_records,
    "depth": partial(sample_records, depths=range(7)),
    "points": partial(sample_records, depths=range(7)),
    "fewshot": fewshot_records,
    "fraction": fraction_records,
    "learning": sample_records,
    "classes": sample_records,
    "confusion": partial(sample_records, heads=HEADS[:4]),
    "attention": lambda **options: sample_records(
        **options | {"heads": ("attention-fusion", "dwatt")}
    ),
    "overthinking": depth_records,
    "exit": depth_records,
}


def one_panel(name):
    """Return records of one head, with three seeds."""
    return [record for record in SAMPLES[name](heads=("dwatt",)) if record.head == "dwatt"]


def test_samples_cover_every_plot():
    assert set(SAMPLES) == set(PLOTS)


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize(
    "options",
    [
        {"heads": ("last", "p32"), "n_blocks": 30, "task": "wikiann/de", "model": LONG},
        {"seeds": 1, "diagnosis": TROUBLES, "select": "dev", "test_score": None, "model": LONG},
    ],
    ids=["31 layers", "one seed with troubles"],
)
def test_no_text_is_clipped_or_overlaps_its_neighbour(name, options):
    figure = PLOTS[name](SAMPLES[name](**options))
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1
        assert box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1
        labels = [t for t in axes.get_xticklabels() if t.get_text() and t.get_visible()]
        boxes = sorted((t.get_window_extent(renderer) for t in labels), key=lambda b: b.x0)
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
    for text in figure.texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1 and box.x1 <= page.x1 + 1
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.x1 + 1
        assert all(not box.overlaps(axes.get_window_extent(renderer)) for axes in figure.axes)


@pytest.mark.parametrize("name", PLOTS)
def test_methods_are_told_apart_whatever_the_order_of_records(name):
    """Runs of the cache, of a model that ran and of one that was trained."""
    methods = (None, "frozen", "lora:rank=4")
    options = {"seeds": 2, "n_blocks": 3, "heads": ("p32",)}
    made = [r for method in methods for r in SAMPLES[name](method=method, **options)]
    records = [r for r in made if r.head != "attention-fusion"]
    figure = PLOTS[name](records)
    texts = " ".join(w for text in figure.findobj(Text) for w in text.get_text().split())
    assert all((method or "from the cache") in texts for method in methods)
    assert _drawn(figure) == _drawn(PLOTS[name](records[::-1]))


@pytest.mark.parametrize("name", PLOTS)
def test_no_records_is_one_line_with_a_command(name):
    with pytest.raises(RecordError, match=r"run\s`probekit") as caught:
        PLOTS[name]([])
    assert "\n" not in str(caught.value)


def _drawn(figure):
    axes = figure.axes[0]
    lines = [(x.get_color(), x.get_xydata().round(9).tolist()) for x in axes.lines]
    meshes = [m.get_array().filled(-1).round(9).tolist() for m in meshes_of(axes)]
    return lines, meshes, [t.get_text() for t in axes.get_yticklabels()]


@pytest.mark.parametrize("name", ["depth", "fewshot"])
def test_repeated_seeds_are_refused(name):
    records = SAMPLES[name](heads=("p32",), seeds=1)
    with pytest.raises(RecordError, match="share seeds"):
        PLOTS[name]([*records, *(replace(r, key=r.key + "again") for r in records)])


def test_panels_never_mix_tasks_or_metrics():
    records = (
        fewshot_records()
        + fewshot_records(label="pos", metric="accuracy")
        + fewshot_records(task="wnut17")
    )
    figure = plot_fewshot(records)
    panels = ("conll, ner", "conll, pos", "wnut17, ner")
    assert titles_of(figure) == [f"tiny-model, {panel}" for panel in panels]
    f1, accuracy = "test span F1 (%)", "test accuracy (%)"
    assert [axes.get_ylabel() for axes in figure.axes] == [f1, accuracy, f1]


def test_too_many_panels_and_curves():
    many = [r for n in range(13) for r in fewshot_records(task=f"ud/{n}", heads=("p32",), seeds=1)]
    with pytest.raises(RecordError, match=r"13 panels.*--where task=ud/0\."):
        plot_fewshot(many)
    many = [r for n in range(13) for r in fewshot_records(lr=10.0**-n, heads=("p32",), seeds=1)]
    with pytest.raises(RecordError, match=r"13 curves.*--where lr=1e-12"):
        plot_fewshot(many)


def test_every_head_and_baseline_has_a_style_of_its_own():
    names = [*ALL_HEADS, *GUESSES]
    alone = {name: curve_styles([name])[name] for name in names}
    assert len({(style.colour, style.marker) for style in alone.values()}) == len(names)
    assert (alone["last"].colour, alone["last"].dashes) == ("#000000", "-")
    together = curve_styles(names[:6]) | curve_styles(names[6:])
    assert together == alone


def test_a_head_keeps_its_style_where_its_name_says_more():
    plain, named = curve_styles(["dwatt", "last"]), curve_styles(["dwatt, lr 0.001", "last"])
    assert list(named.values()) == list(plain.values())
    two = curve_styles(["dwatt, lr 0.001", "dwatt, lr 0.01", "last"])
    assert two["last"] == plain["last"]
    assert len({style.colour for style in two.values()}) == 3


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
