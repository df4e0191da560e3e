"""Tasks by layers, one panel per head and model; shares, ablations, weights before training."""

import re
from itertools import pairwise

import numpy as np
import pytest

from probekit import Look, plot_weights
from probekit.errors import OptionError, RecordError, UnknownNameError
from probekit.results.summaries.grouping import series
from probekit.results.tables import summarise, table, weights_table
from tests.plots.samples import (
    cells_of,
    fewshot_records,
    meshes_of,
    notes_of,
    row_names,
    sample_records,
)
from tests.results.samples import make_record

SIZES = {"glue/sst2": 10_000, "glue/rte": 2_490, "conll": 14_041, "glue/mrpc": 3_668}


def _tasks(heads=("p32",), sizes=SIZES, **options):
    return [
        make_record(head, seed, task=task, seen={"examples": size, "of_examples": size}, **options)
        for head in heads
        for task, size in sizes.items()
        for seed in (0, 1)
    ]


def test_tasks_are_rows_by_the_size_of_what_was_fitted_on():
    records = _tasks()
    figure = plot_weights(records)
    axes = figure.axes[0]
    assert row_names(axes) == [
        "glue/rte (n=2,490)",
        "glue/mrpc (n=3,668)",
        "glue/sst2 (n=10,000)",
        "conll (n=14,041)",
    ]
    assert axes.get_title().startswith("p32, tiny-model")
    first = [r for r in records if r.task == "glue/rte"]
    expected = 4 * np.mean([list(r.weights.values()) for r in first], axis=0)
    assert cells_of(axes)[0, 1:].tolist() == pytest.approx(expected)


def test_tasks_of_unknown_size_come_last_by_name():
    records = [make_record(task=task) for task in ("b", "a")]
    records += [make_record(task="z", seen={"examples": 5})]
    assert row_names(plot_weights(records).axes[0]) == ["z (n=5)", "a", "b"]


def test_heads_and_models_have_panels_of_their_own_with_the_layers_of_their_model():
    records = _tasks(("p32", "dwatt")) + _tasks(("p32",), model="org/deep", n_blocks=30)
    *panels, _ = plot_weights(records).axes
    titles = [axes.get_title().split(", ner")[0] for axes in panels]
    assert titles == ["p32, deep", "p32, tiny-model", "dwatt, tiny-model"]
    assert [cells_of(axes).shape for axes in panels] == [(4, 31), (4, 5), (4, 5)]
    for axes in panels:  # hatched are the embeddings alone, which these heads do not read
        assert {patch.get_bbox().x1 for patch in axes.patches} == {0.5}


def test_models_have_panels_without_hatches_where_they_have_no_layer():
    records = sample_records(("p32", "scalar-mix")) + sample_records(
        ("p32",), model="b", n_blocks=2
    )
    *panels, _ = plot_weights(records).axes
    assert [cells_of(axes).shape for axes in panels] == [(1, 3), (2, 7)]
    assert [len(axes.patches) for axes in panels] == [1, 1]
    same = sample_records(("p32",)) + sample_records(("p32",), model="fork/tiny-model")
    *panels, _ = plot_weights(same).axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["fork/tiny-model, conll, ner", "org/tiny-model, conll, ner"]


@pytest.mark.parametrize("width", [3.3, 6.9])
def test_thirty_tasks_of_several_heads_are_legible(width):
    sizes = {f"a-corpus-of-some-length/{n:02}": 100 * n for n in range(30)}
    heads = ("p32", "scalar-mix", "dwatt", "concat")[: 2 if width < 4 else 3]
    records = _tasks(heads, sizes, n_blocks=12)
    figure = plot_weights(records, look=Look(width=width))
    figure.draw_without_rendering()
    for axes in figure.axes[:-1]:
        labels = [text for text in axes.get_yticklabels() if text.get_visible()]
        boxes = [text.get_window_extent() for text in labels]
        assert all(text.get_fontsize() >= 7 for text in labels)
        assert all(low.y1 <= high.y0 + 0.5 for high, low in pairwise(boxes))
        assert axes.get_window_extent().width / 13 / figure.dpi > 0.05  # a cell, inches


def test_a_row_for_each_seed():
    records = [make_record(head, s) for head in ("p32", "dwatt") for s in range(3)]
    records.remove(records[-1])
    figure = plot_weights(records[::-1], per_seed=True)
    cells = cells_of(figure.axes[0])
    assert cells.shape == (5, 5)  # three seeds and two
    for row, record in zip(cells, records, strict=True):
        assert row[1:].tolist() == pytest.approx([4 * w for w in record.weights.values()])
    assert row_names(figure.axes[0])[2:4] == ["p32, seed 2", "dwatt, seed 0"]
    assert "interval" not in notes_of(figure)


def test_shares_may_be_negative_and_are_white_at_zero():
    shares = {1: -0.25, 2: 0.5, 3: 0.25, 4: 0.5}
    figure = plot_weights([make_record(shares=shares)], of="shares")
    (mesh,) = meshes_of(figure.axes[0])
    assert mesh.get_array()[0, 1:].tolist() == [-1, 2, 1, 2]  # times the layers that it read
    assert mesh.norm(0.0) == 0.5 and mesh.get_clim() == (-2, 2)
    label = (
        "times layers read (1: an equal part): each layer's share of the logits' variance on dev"
    )
    assert notes_of(figure).startswith(label)


def test_one_row_of_a_large_share_leaves_the_others_their_colours():
    deep = dict.fromkeys(range(1, 31), 0.0) | {20: 1.0}
    records = [
        make_record("p32", n_blocks=30, model="deep", layers=tuple(range(1, 31)), shares=deep),
        make_record("p32", shares={1: -0.25, 2: 0.75, 3: 0.25, 4: 0.25}),
    ]
    figure = plot_weights(records, of="shares")
    (mesh,) = meshes_of(figure.axes[0])
    assert mesh.get_clim() == (-30, 30) and mesh.norm(0.0) == 0.5
    assert mesh.norm(1.0) > 0.6 and mesh.norm(3.0) > 0.7 and mesh.norm(-1.0) < 0.4
    ticks = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert ticks == ["-30", "-1", "0", "1", "30"]
    assert "linear to \u00b11, then by powers" in notes_of(figure)


def test_ablation_is_drawn_as_it_is_and_says_how():
    losses = {1: 0.02, 2: -0.004, 3: 0.0, 4: 0.5}
    records = [make_record("mean", ablation=losses, ablated="refit")]
    figure = plot_weights(records, of="ablation")
    (mesh,) = meshes_of(figure.axes[0])
    assert mesh.get_array()[0, 1:].tolist() == list(losses.values())
    assert mesh.get_clim() == (-0.5, 0.5) and mesh.norm(0.0) == 0.5
    assert mesh.norm(0.02) == pytest.approx(0.5 + 0.5 * np.arcsinh(2) / np.arcsinh(50))
    assert "(nats per row): the head refitted on the other layers" in notes_of(figure)
    other = make_record("mean", 1, ablation=losses, ablated="mean")
    with pytest.raises(OptionError, match="--where ablated=mean or --where ablated=refit"):
        plot_weights([*records, other], of="ablation")
    how = {"ablation": losses, "ablated": "mean", "metric": "spearman"}
    notes = notes_of(plot_weights([make_record("mean", **how)], of="ablation"))
    assert "(squared error): its rows replaced by their train mean" in notes


def test_weights_before_training():
    record = make_record("dwatt", initial_weights=dict.fromkeys(range(1, 5), 0.25))
    assert cells_of(plot_weights([record], of="initial").axes[0]).compressed().tolist() == [1] * 4


@pytest.mark.parametrize(
    ("of", "command"),
    [
        ("weights", "--head p32"),
        ("shares", "linear"),
        ("ablation", "--ablate"),
        ("initial", "each row"),
    ],
)
def test_measures_that_no_record_has(of, command):
    with pytest.raises(RecordError, match=rf"none of 1 records holds .*probekit train.*{command}"):
        plot_weights([make_record(weights={})], of=of)


def test_options_that_do_not_fit():
    with pytest.raises(UnknownNameError, match=r"unknown measure 'share'\. Did you mean 'shares'"):
        plot_weights([make_record()], of="share")
    with pytest.raises(OptionError, match="shares have no values before a softmax"):
        plot_weights([make_record()], raw=True, of="shares")


def test_no_key_stands_in_a_figure_or_table():
    models = ("org/tiny-model", "fork/tiny-model")  # whose names are written in full
    keys = [{"labels_fingerprint": str(n) * 64, "entry": str(n + 2) * 64} for n in (3, 4)]
    options = [{"model": model, **key} for model in models for key in keys]
    records = [r for one in options for r in fewshot_records(heads=("p32",), seeds=1, **one)]
    figure = plot_weights([r for r in records if r.shots == 8])
    found = [text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text"))]
    found += [*series(records), table(summarise(records)), str(weights_table(records))]
    assert any("fork/tiny-model" in text for text in found)
    assert any(re.search("[3-6]{8}", text) for text in found)
    assert not [text for text in found if re.search(r"[0-9a-f]{12,}", text)]


def test_too_many_rows_are_refused():
    sizes = {f"a-corpus/{n:02}": 100 * n for n in range(61)}
    records = [r for model in "ab" for r in _tasks(("p32",), sizes, model=model)]
    with pytest.raises(RecordError, match=r"122 rows .* --where task=a-corpus/0"):
        plot_weights(records)
