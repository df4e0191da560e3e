"""The heatmap of layer weights: its numbers, its rows' names."""

import re
from itertools import pairwise

import numpy as np
import pytest

from probekit import plot_weights
from probekit.errors import RecordError
from tests.plots.samples import meshes_of, notes_of, row_names, sample_records
from tests.results.samples import make_record


def test_heatmap_shows_mean_lifts_and_hatches_layers_that_are_not_read():
    records = [
        make_record("p32", seed, layers=[1, 2], weights={1: 0.2 + seed / 10, 2: 0.8 - seed / 10})
        for seed in (0, 1)
    ]
    mix = {"layers": [0, 1, 2], "weights": {0: 0.0, 1: 0.5, 2: 0.5}}
    records += [make_record("scalar-mix", **mix)]
    records += [make_record("last", layers=[2], weights={2: 1.0})]
    records += [make_record("concat", layers=[1, 2], weights={})]
    figure = plot_weights(records)
    axes = figure.axes[0]
    assert row_names(axes) == ["p32", "scalar-mix"]
    (mesh,) = meshes_of(axes)
    values = mesh.get_array()
    assert values.mask.tolist() == [[True, False, False], [False, False, False]]
    assert values.filled(0).tolist() == pytest.approx(np.array([[0, 0.5, 1.5], [0, 1.5, 1.5]]))
    assert len(axes.patches) == 1 and axes.patches[0].get_hatch()
    assert axes.patches[0].get_bbox().x0 == -0.5
    texts = [t.get_text() for t in axes.texts]  # t(0.975, 1) is 12.706: 0.1 * 12.706 = 1.27
    assert texts == ["0.50\n±1.27", "1.50\n±1.27", "0.00", "1.50", "1.50"]
    assert axes.get_xlabel() == "layer (0 = emb; hatched: not read)"
    assert notes_of(figure) == (
        "times layers read (1: an equal part): weight of each layer after the softmax "
        "1 to 2 seeds; ± 95 % interval; left out, with nothing to compare: last, concat"
    )


def test_rows_of_one_layer_are_left_out_unless_they_are_all():
    deep, flat = make_record("p32"), make_record("dwatt", weights={4: 1.0})
    for records, names in (([deep, flat], ["p32"]), ([flat], ["dwatt"])):
        axes = plot_weights(records).axes[0]
        assert row_names(axes) == names


def test_constant_weights_are_left_out_with_a_word():
    constant = [make_record(head) for head in ("concat-ffn", "mean", "last")]
    figure = plot_weights([*constant, make_record("p32")])
    assert row_names(figure.axes[0]) == ["p32"]
    assert notes_of(figure).endswith("; left out, with nothing to compare: last, mean, concat-ffn")
    assert "left out" not in notes_of(plot_weights([make_record("p32")]))
    with pytest.raises(RecordError, match=r"of mean are constant.*run `probekit train`"):
        plot_weights([make_record("mean")])


def test_the_spread_over_seeds_stands_below_its_mean_inside_the_cell():
    records = sample_records(("p32", "scalar-mix"), n_blocks=12, seeds=3)
    figure = plot_weights(records)
    axes = figure.axes[0]
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    (mesh,) = meshes_of(axes)
    assert len(boxes) == mesh.get_array().count()
    assert all(re.fullmatch(r"\d\.\d\d\n±\d?\.\d\d", text.get_text()) for text in axes.texts)
    edges = axes.transData.transform([(0, y) for y in mesh.get_coordinates()[:, 0, 1]])[:, 1]
    width = axes.get_window_extent().width / 13
    for box in boxes:
        assert box.width < width
        assert any(low <= box.y0 and box.y1 <= high for high, low in pairwise(edges))
    assert "± 95 % interval" in notes_of(figure)
    assert "±" not in notes_of(plot_weights([r for r in records if r.seed == 0]))
    narrow = plot_weights(sample_records(("p32",), n_blocks=30, seeds=3))
    assert not narrow.axes[0].texts


def test_a_lift_of_one_is_white_and_colours_turn_there():
    records = [make_record("concat", layers=[1, 2, 3], weights={1: -0.25, 2: 1 / 3, 3: 11 / 12})]
    figure = plot_weights(records)
    (mesh,) = meshes_of(figure.axes[0])
    places = mesh.norm([0.0, 0.5, 1.0, 2.0, 4.0])
    assert np.diff(places).min() > 0 and places[-1] == 1
    assert 0.5 - places[0] == pytest.approx(places[3] - 0.5)  # none is as far from 1 as a double
    white = mesh.cmap(mesh.norm(1.0))[:3]
    assert min(white) > 0.95
    (red, _, blue), (red_below, _, blue_below) = (mesh.cmap(mesh.norm(v))[:3] for v in (2.5, 0.2))
    assert red > blue and red_below < blue_below
    assert mesh.norm(-0.75) < mesh.norm(0.0)  # a negative one is told from none
    assert [t.get_text() for t in figure.axes[0].texts] == ["-0.75", "1.00", "2.75"]
    values = [-0.5, 0.3, 1.0, 3.0]
    assert mesh.norm.inverse(mesh.norm(values)).tolist() == pytest.approx(values)


def test_heatmap_before_the_softmax():
    figure = plot_weights(sample_records(), raw=True)
    assert row_names(figure.axes[0]) == ["p32"]
    assert notes_of(figure) == (
        "divided by the largest of its row: weight of each layer before the softmax 3 seeds; "
        "± 95 % interval; left out, with nothing to compare: last, mean, scalar-mix, "
        "attention-fusion, concat, dwatt"
    )


def test_raw_weights_are_divided_by_the_largest_of_their_row():
    records = [
        make_record("p32", raw_weights={1: -0.804, 2: 0.123}),
        make_record("dwatt", raw_weights={1: -48.3, 2: 5.21}),
        make_record("scalar-mix", raw_weights={1: 0.0, 2: 0.0}),
        make_record("attention-fusion", raw_weights={1: 9.5, 2: 0.0004}),
    ]
    axes = plot_weights(records, raw=True).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["-1.00", "0.15", "0.00", "0.00", "1.00", "0.00", "-1.00", "0.11"]
    (mesh,) = meshes_of(axes)  # each row by itself, around zero
    assert mesh.get_clim() == (-1, 1) and mesh.norm(0.0) == 0.5
    shares = mesh.get_array()[:, 1:3]
    assert shares.tolist() == pytest.approx(
        np.array([[-1, 0.153], [0, 0], [1, 0], [-1, 0.1079]]), abs=1e-3
    )


SOLVED = {"fitter": "lbfgs", "select": "cv:5", "optimizer": "lbfgs"}
SOLVED |= dict.fromkeys(("epochs", "evals", "lr", "batch_size"))
POSITIONS = {"options": {"head.d_pos": 8}}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([{}, {"normalize": "layer"}], ["p32, raw", "dwatt, layer"]),
        ([{}, {"lr": 0.1, "rates": {"mixing": 0.1}, "layers": [1, 2]}], ["p32", "dwatt"]),
        ([{}, {"protocol": "full, hold-out 0.1"}], ["p32", "dwatt"]),
        ([{"entry": "train-1"}, {"shots": 8, "protocol": "few-shot"}],
         ["p32, all sentences", "dwatt, 8 shots"]),
        ([SOLVED, {}], ["p32, fit lbfgs", "dwatt, fit adam"]),
        ([SOLVED, {}, {"head": "p32"}], ["p32, fit adam", "p32, fit lbfgs", "dwatt, fit adam"]),
        ([{}, {"head": "p32", "lr": 0.1}], ["p32, lr 0.002", "p32, lr 0.1"]),
        ([{}, POSITIONS], ["p32", "dwatt"]),
        ([{}, POSITIONS, {}], ["p32, defaults", "dwatt, head.d_pos=8", "dwatt, defaults"]),
        ([{}, {}, {"head": "last", "label": "pos"}], ["p32", "dwatt"]),  # which is left out
    ],
)  # fmt: skip
def test_rows_are_named_as_curves_are(settings, names):
    heads = ("p32", *("dwatt",) * (len(settings) - 1))
    records = [
        make_record(**{"head": head} | own) for head, own in zip(heads, settings, strict=True)
    ]
    axes = plot_weights(records).axes[0]
    assert (row_names(axes), axes.get_title()) == (names, "tiny-model, conll, ner")


def test_even_weights_do_not_look_extreme():
    even = make_record("p32", n_blocks=30, weights={layer: 1 / 30 for layer in range(1, 31)})
    (mesh,) = meshes_of(plot_weights([even]).axes[0])
    assert mesh.norm(mesh.get_array().compressed()).tolist() == pytest.approx([0.5] * 30)
    assert mesh.get_clim() == (0, 2)
