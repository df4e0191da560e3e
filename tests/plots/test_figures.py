"""Every figure: shows the right numbers, clips nothing, and fails in one line when it cannot."""

from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from probekit.errors import RecordError, UnknownNameError
from probekit.plots import (
    PLOTS,
    plot_depth,
    plot_fewshot,
    plot_fraction,
    plot_learning,
    plot_weights,
)
from tests.results.samples import HEADS, make_record

LONG = "an-organisation/a-model-with-a-very-long-name-Instruct.Q4_1.gguf"


def _records(heads=HEADS, seeds=3, n_blocks=6, depths=(None,), **options):
    return [
        make_record(head, seed, n_blocks, depth=depth, **options)
        for head in heads
        for seed in range(seeds)
        for depth in depths
    ]


def _fewshot(**options):
    return [r for k in (8, 32, 128) for r in _records(shots=k, protocol="few-shot", **options)]


def _fractions(**options):
    return [r for f in (0.01, 0.05, 0.2, 0.25, 1.0) for r in _records(fraction=f, **options)]


SAMPLES = {
    "weights": lambda **options: _records(**options),
    "depth": lambda **options: _records(depths=range(7), **options),
    "fewshot": lambda **options: _fewshot(**options),
    "fraction": lambda **options: _fractions(**options),
    "learning": lambda **options: _records(**options),
    "classes": lambda **options: _records(**options),
    "confusion": lambda **options: _records(**{"heads": HEADS[:4]} | options),
    "attention": lambda **options: _records(**options | {"heads": ("attention-fusion", "dwatt")}),
}


def test_samples_cover_every_plot():
    assert set(SAMPLES) == set(PLOTS)


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize(
    "options",
    [
        {"seeds": 1},
        {"seeds": 5, "model": LONG},
        {"heads": ("last", "p32"), "n_blocks": 30, "task": "wikiann/de", "model": LONG},
    ],
    ids=["one seed", "long name", "31 layers"],
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
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.x1 + 1
        assert all(not box.overlaps(axes.get_window_extent(renderer)) for axes in figure.axes)


@pytest.mark.parametrize("name", PLOTS)
def test_global_settings_stay(name):
    before = dict(matplotlib.rcParams)
    PLOTS[name](SAMPLES[name]())
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", PLOTS)
def test_no_records_is_one_line_with_a_command(name):
    with pytest.raises(RecordError, match=r"run\s`probekit") as caught:
        PLOTS[name]([])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", PLOTS)
def test_order_of_records_does_not_matter(name):
    records = SAMPLES[name]()
    one, two = (_drawn(PLOTS[name](r)) for r in (records, records[::-1]))
    assert one == two


def _drawn(figure):
    axes = figure.axes[0]
    lines = [(x.get_color(), x.get_xydata().round(9).tolist()) for x in axes.lines]
    meshes = [m.get_array().filled(-1).round(9).tolist() for m in _meshes(axes)]
    return lines, meshes, [t.get_text() for t in axes.get_yticklabels()]


def _meshes(axes):
    return [item for item in axes.collections if isinstance(item, QuadMesh)]


@pytest.mark.parametrize("name", ["depth", "fewshot"])
def test_repeated_seeds_are_refused(name):
    records = SAMPLES[name](heads=("p32",), seeds=1)
    twice = records + [make_record(**_options(r), key=r.key + "again") for r in records]
    with pytest.raises(RecordError, match="share seeds"):
        PLOTS[name](twice)


def _options(record):
    names = ("head", "seed", "depth", "shots", "protocol", "layers")
    return {name: getattr(record, name) for name in names}


def test_panels_never_mix_tasks_or_metrics():
    records = _fewshot() + _fewshot(label="pos", metric="accuracy") + _fewshot(task="wnut17")
    figure = plot_fewshot(records)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "tiny-model, conll, ner",
        "tiny-model, conll, pos",
        "tiny-model, wnut17, ner",
    ]
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "dev span F1 (%)",
        "dev accuracy (%)",
        "dev span F1 (%)",
    ]


def test_too_many_panels_and_curves():
    many = [r for n in range(13) for r in _fewshot(task=f"ud/{n}", heads=("p32",), seeds=1)]
    with pytest.raises(RecordError, match="13 panels"):
        plot_fewshot(many)
    many = [r for n in range(13) for r in _fewshot(lr=10.0**-n, heads=("p32",), seeds=1)]
    with pytest.raises(RecordError, match="13 curves"):
        plot_fewshot(many)


def test_curves_can_be_told_apart_without_colour():
    figure = plot_fewshot(_fewshot())
    lines = [item for item in figure.legends[0].get_lines()]
    assert len(lines) == len(HEADS) == len({line.get_marker() for line in lines})
    assert len({line.get_color() for line in lines}) == len(HEADS)


def test_a_head_has_one_colour_in_every_figure():
    few, deep = plot_fewshot(_fewshot()), plot_depth(_records(("dwatt",), depths=(0, 1)))
    colours = {
        text.get_text(): line.get_color()
        for text, line in zip(few.legends[0].get_texts(), few.legends[0].get_lines(), strict=True)
    }
    assert deep.axes[0].lines[0].get_color() == colours["dwatt"]


# weights


def test_heatmap_shows_mean_weights_and_leaves_out_absent_layers():
    records = [
        make_record("p32", seed, weights={1: 0.2 + seed / 10, 2: 0.8 - seed / 10})
        for seed in (0, 1)
    ]
    records += [make_record("scalar-mix", weights={0: 0.0, 1: 0.5, 2: 0.5})]
    records += [make_record("last", weights={2: 1.0}), make_record("concat", weights={})]
    figure = plot_weights(records)
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["p32", "scalar-mix"]
    (mesh,) = _meshes(axes)
    values = mesh.get_array()
    assert values.mask.tolist() == [[True, False, False], [False, False, False]]
    assert values.filled(0).tolist() == pytest.approx(np.array([[0, 0.25, 0.75], [0, 0.5, 0.5]]))
    assert mesh.get_clim() == (0.0, 0.75)  # zero is the light end, whatever the smallest weight
    assert len(axes.patches) == 1 and axes.patches[0].get_hatch()
    assert axes.patches[0].get_bbox().x0 == -0.5
    assert [t.get_text() for t in axes.texts] == ["0.25", "0.75", "0.00", "0.50", "0.50"]
    assert axes.get_xlabel() == "layer (0 = emb; hatched: not read)"
    assert figure.axes[1].get_xlabel() == "weight (after softmax)"


def test_heatmap_of_one_layer_heads_alone():
    axes = plot_weights([make_record("last", weights={4: 1.0})]).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["last"]


def test_heatmap_before_the_softmax():
    figure = plot_weights(_records(), raw=True)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["p32"]
    assert figure.axes[1].get_xlabel() == "weight (before softmax)"


def test_heatmap_says_that_concat_has_norm_shares():
    label = plot_weights(_records()).axes[1].get_xlabel()
    assert "concat: share of norm" in " ".join(label.split())
    records = _records(("p32", "concat")) + [
        make_record("concat-ffn", seed, weights={1: 0.5, 2: 0.5}) for seed in range(3)
    ]
    figure = plot_weights(records)
    figure.draw_without_rendering()
    label = figure.axes[1].xaxis.label
    assert label.get_text().split() == [
        "weight", "(after", "softmax;", "concat,", "concat-ffn:", "share", "of", "norm)",
    ]  # fmt: skip
    box = label.get_window_extent(figure.canvas.get_renderer())
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_values_are_printed_only_where_they_fit():
    assert plot_weights(_records(n_blocks=12)).axes[0].texts
    assert not plot_weights(_records(n_blocks=30)).axes[0].texts


def test_colour_map_darkens_monotonously():
    colours = matplotlib.colormaps["magma_r"](np.linspace(0, 1, 64))[:, :3]
    assert (np.diff(colours @ [0.299, 0.587, 0.114]) < 0).all()


def test_heatmap_without_weights():
    with pytest.raises(RecordError, match="none of 1 records holds layer weights"):
        plot_weights([make_record(weights={})])


def _row_names(records):
    figure = plot_weights(records)
    axes = figure.axes[0]
    figure.draw_without_rendering()
    boxes = [t.get_window_extent(figure.canvas.get_renderer()) for t in axes.get_yticklabels()]
    assert all(box.x0 >= 0 and box.x1 <= axes.get_window_extent().x0 for box in boxes)
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    names = [" ".join(t.get_text().split()) for t in axes.get_yticklabels()]
    return names, axes.get_title(loc="left")


def test_rows_say_what_they_were_trained_on_even_if_each_head_had_its_own():
    records = _records(("p32",), label="pos", metric="accuracy", entry="train-1")
    records += _records(("dwatt",), label="ner", shots=128, protocol="few-shot", epochs=5)
    names, title = _row_names(records)
    assert names == ["p32 (pos, all sentences)", "dwatt (ner, 128 shots)"]
    assert title == "tiny-model, conll"


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"model": "org/other"}, ["p32 (tiny-model)", "dwatt (other)"]),
        ({"model": "fork/tiny-model"}, ["p32 (org/tiny-model)", "dwatt (fork/tiny-model)"]),
        ({"task": "ud/en", "label": "pos"}, ["p32 (conll, ner)", "dwatt (ud/en, pos)"]),
        ({"normalize": "layer"}, ["p32 (raw)", "dwatt (layer)"]),
        ({"epochs": 50}, ["p32 (5 epochs)", "dwatt (50 epochs)"]),
        ({"mix_lr": 0.1}, ["p32 (no mix lr)", "dwatt (mix lr 0.1)"]),
        ({"protocol": "full, hold-out 0.1"}, ["p32 (full)", "dwatt (full, hold-out 0.1)"]),
        ({"lr": 0.1, "layers": [1, 2]}, ["p32", "dwatt"]),  # settled by the head
    ],
)
def test_rows_say_what_differs_beside_what_the_head_settles(changes, names):
    found, _ = _row_names(_records(("p32",)) + _records(("dwatt",), **changes))
    assert found == names


def test_rows_of_one_head_say_lr_and_size_of_the_sample():
    one_head = _records(("p32",)) + _records(("p32",), lr=0.1)
    assert _row_names(one_head)[0] == ["p32 (lr 0.002)", "p32 (lr 0.1)"]
    sizes = [{"shots": 8}, {"fraction": 0.5}, {}]
    records = [r for options in sizes for r in _records(("p32",), **options)]
    assert _row_names(records)[0] == ["p32 (8 shots)", "p32 (fraction 0.5)", "p32 (all sentences)"]


def test_defaults_are_named_only_beside_other_settings_of_the_same_head():
    records = _records(("p32",)) + _records(("dwatt",), options={"head.d_pos": 8})
    assert _row_names(records)[0] == ["p32", "dwatt (head.d_pos=8)"]
    records += _records(("dwatt",))
    assert _row_names(records)[0] == ["p32", "dwatt (head.d_pos=8)", "dwatt (defaults)"]


def test_models_with_one_last_name_are_written_in_full():
    names, _ = _row_names(_records(("p32",)) + _records(("p32",), model="fork/tiny-model"))
    assert names == ["p32 (fork/tiny-model)", "p32 (org/tiny-model)"]


def test_heads_that_are_left_out_do_not_lengthen_names():
    names, title = _row_names(_records(("last",), label="pos") + _records(("p32", "dwatt")))
    assert names == ["p32", "dwatt"]
    assert title == "tiny-model, conll, ner"


# depth


def test_depth_curve_and_its_best():
    scores = {0: 0.5, 1: 0.75, 2: 0.625}
    records = [
        make_record("last", seed, depth=depth, eval_score=score + seed / 16)
        for depth, score in scores.items()
        for seed in (0, 1)
    ]
    axes = plot_depth(records).axes[0]
    curve, ring = axes.lines
    assert curve.get_xdata().tolist() == [0, 1, 2]
    assert curve.get_ydata().tolist() == [53.125, 78.125, 65.625]
    assert ring.get_xydata().tolist() == [[1, 78.125]]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == 100 and band.min() == pytest.approx(53.125 - 12.7062 * 3.125, rel=1e-4)
    assert axes.get_xlabel() == "layer (0 = emb)"


@pytest.mark.parametrize(("top", "last_label"), [(6, 6), (12, 12), (24, 24), (30, 30), (22, 21)])
def test_layer_axis_labels_at_most_nine(top, last_label):
    figure = plot_depth(_records(("last",), seeds=1, n_blocks=top, depths=range(top + 1)))
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
    axes = plot_depth(_perplexities(20.0, 100.0)).axes[0]
    curve, ring = axes.lines
    assert axes.get_ylabel() == "dev perplexity" and axes.get_yscale() == "linear"
    assert curve.get_ydata()[0] == pytest.approx(101.25)
    assert ring.get_xdata() == [4]


@pytest.mark.parametrize("plot", [plot_depth, plot_learning])
def test_perplexities_far_apart_have_a_logarithmic_axis(plot):
    records = _perplexities(20.0, 30000.0)
    if plot is plot_learning:
        records = [make_record(metric="perplexity", curve=[(1, 9, 30000), (2, 3, 20)])]
    axes = plot(records).axes[0]
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log"
    assert 10 < low < 20 and 30000 < high < 60000
    axes.figure.draw_without_rendering()
    assert "1000" in [text.get_text() for text in axes.get_yticklabels()]


@pytest.mark.parametrize("decades", [1.5, 3.0, 3.5, 3.7, 5, 9, 12, 25, 40, 150])
@pytest.mark.parametrize("start", [1.0, 3.0, 27.5])
def test_a_logarithmic_axis_has_a_few_labels_that_do_not_collide(decades, start):
    axes = plot_depth(_perplexities(start, start * 10**decades)).axes[0]
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


# few-shot


def test_fewshot_axis_and_intervals():
    axes = plot_fewshot(_fewshot(heads=("last",))).axes[0]
    assert axes.get_xscale() == "log"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["8", "32", "128"]
    curve, *bars = axes.lines
    assert curve.get_xdata().tolist() == [8, 32, 128]
    assert len(bars) == 3
    assert np.mean(bars[0].get_ydata()) == pytest.approx(curve.get_ydata()[0])


def test_one_seed_has_no_interval():
    figure = plot_fewshot(_fewshot(heads=("last",), seeds=1))
    assert len(figure.axes[0].lines) == 1
    assert figure.legends[0].get_title().get_text() == "one seed"


def test_interval_of_few_seeds_stays_within_what_a_score_can_be():
    records = [
        make_record("last", seed, shots=k, eval_score=score)
        for k in (8, 16)
        for seed, score in enumerate((0.1, 0.9))
    ]
    for line in plot_fewshot(records).axes[0].lines[1:]:
        assert line.get_ydata().tolist() == [0.0, 100.0]


def test_interval_of_a_correlation_may_be_negative():
    records = [
        make_record("last", seed, shots=k, metric="spearman", eval_score=score)
        for k in (8, 16)
        for seed, score in enumerate((0.05, 0.06))
    ]
    for line in plot_fewshot(records).axes[0].lines[1:]:
        assert line.get_ydata()[0] == pytest.approx(5.5 - 6.353, abs=0.001)


def test_one_number_of_shots_is_no_curve():
    with pytest.raises(RecordError, match="--shots 8,16,32,64,128"):
        plot_fewshot([make_record(shots=8), make_record()])


# fraction


def test_fraction_axis_is_in_percent_and_its_labels_do_not_collide():
    figure = plot_fraction(_fractions(heads=("last",)))
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "share of the training split (%)"
    assert axes.lines[0].get_xdata().tolist() == [0.01, 0.05, 0.2, 0.25, 1.0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "5", "", "25", "100"]


def test_one_fraction_is_no_curve():
    with pytest.raises(RecordError, match=r"--fraction 0\.01,0\.1,1"):
        plot_fraction([make_record(fraction=0.5), make_record()])


# learning


@pytest.mark.parametrize(
    ("along", "x"), [("step", [10, 20, 30, 40, 50]), ("epoch", [1, 2, 3, 4, 5])]
)
def test_learning_curve(along, x):
    records = [make_record("p32", seed) for seed in (0, 1)]
    curve = plot_learning(records, along=along).axes[0].lines[0]
    assert curve.get_xdata().tolist() == x
    expected = np.mean([[score for _, _, score in r.curve] for r in records], axis=0)
    assert curve.get_ydata() == pytest.approx(100 * expected)


def test_shots_have_their_own_panels_in_learning():
    titles = [axes.get_title(loc="left") for axes in plot_learning(_fewshot()).axes]
    assert titles == [f"tiny-model, conll, ner,\n{k} shots" for k in (8, 32, 128)]


def test_unknown_learning_axis():
    with pytest.raises(UnknownNameError, match="Did you mean 'epoch'"):
        plot_learning(_records(), along="epochs")


def test_learning_needs_a_curve():
    with pytest.raises(RecordError, match="--evals 2"):
        plot_learning([make_record(curve=[(1, 0.5, 0.5)])])
