"""The geometry of real entries, and how far layers moved: found, drawn, kept, printed, refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import probekit
from probekit import Look
from probekit.errors import DataError, MissingFileError, OptionError, RecordError, UnknownNameError
from probekit.features import Location
from probekit.measures.measured_rows import MeasuredRows
from probekit.measures.measuring import measure
from probekit.plots.geometry_panels import plot_geometry
from probekit.plots.style import new_figure
from probekit.results.layer_geometry import load_geometry
from probekit.store import Entry
from tests.cli.console import done, refused
from tests.measures.test_measures import gram_cka
from tests.planted import DIM, LAYERS, MODEL, TASK, plant

AFTER = "planted-lora"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A model, and another with the same text, some layers fewer, and other noise."""
    folder = tmp_path_factory.mktemp("cache")
    plant(folder, invalid=0.1)
    plant(folder, invalid=0.1, model=AFTER, layers=(0, 1, 2), noise=0.5)
    plant(folder, "dev", seed=1)
    plant(folder, "dev", sentences=20, seed=1, model=AFTER)
    return folder


@pytest.fixture(scope="module")
def found(root):
    return probekit.geometry(MODEL, TASK, location=Location(cache=root))


def test_all_layers_of_the_default_rows_are_measured(root, found):
    (path,) = (root / MODEL).glob("*/train-????????")
    valid = Entry.open(path).examples.valid
    assert (found.array, found.dim, found.split) == ("words", DIM, "train")
    assert found.rows == found.of_rows == valid.sum() < len(valid)
    assert [layer.layer for layer in found.layers] == list(LAYERS)
    assert np.shape(found.cka) == (len(LAYERS), len(LAYERS))
    # the label's directions lie in the last two layers: few directions, alike from layer to layer
    ranks = [layer.effective_rank for layer in found.layers]
    assert max(ranks[2:]) < min(ranks[:2])
    assert found.cka[2][3] > 3 * found.cka[0][1]


def test_the_path_of_an_entry_is_that_entry(root):
    (path,) = (root / MODEL).glob("*/dev-????????")
    assert probekit.geometry(path).split == "dev"
    with pytest.raises(OptionError, match=r"is the entry of split dev\. Leave --split out"):
        probekit.geometry(path, split="train")
    with pytest.raises(OptionError, match="is not the path of a cache entry"):
        probekit.geometry(root / "nowhere")
    with pytest.raises(OptionError, match="leave TASK out"):
        probekit.geometry(path, TASK)


def test_rows_are_drawn_by_the_seed(root):
    place = Location(cache=root)
    one, again, other = (
        probekit.geometry(MODEL, TASK, location=place, rows=50, sample=30, seed=seed)
        for seed in (0, 0, 1)
    )
    assert one == again
    assert one.rows == 50 < one.of_rows
    assert one.sample == 30
    assert one.layers[0].norm != other.layers[0].norm


def test_blocks_of_any_size_give_the_same(tmp_path):
    entry = plant(tmp_path, dtype="int8", sentences=12)
    whole, small = (
        measure(entry, replace(MeasuredRows.draw(entry, "words"), block=block))
        for block in (10**6, 3)
    )
    assert np.allclose(np.array(whole.cka), np.array(small.cka), rtol=1e-5)
    for one, other in zip(whole.layers, small.layers, strict=True):
        for name in ("effective_rank", "anisotropy", "norm", "norm_deviation"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
        for name in ("median", "intrinsic_dimension", "dimension_low", "dimension_high"):
            assert getattr(one, name) == getattr(other, name)


def test_arrays_that_are_there_and_one_that_is_not(root):
    found = probekit.geometry(MODEL, TASK, array="tokens", location=Location(cache=root))
    assert [layer.layer for layer in found.layers] == [LAYERS[-1]], "subwords are of the last"
    with pytest.raises(OptionError, match=r"--array cls: .* holds words, tokens; choose one"):
        probekit.geometry(MODEL, TASK, array="cls", location=Location(cache=root))
    with pytest.raises(OptionError, match="--rows 0"):
        probekit.geometry(MODEL, TASK, rows=0, location=Location(cache=root))


def test_one_row_measures_what_one_row_has(root):
    one = probekit.geometry(MODEL, TASK, rows=1, location=Location(cache=root))
    assert {row for own in one.cka for row in own} == {None}
    assert one.layers[0].effective_rank is one.layers[0].anisotropy is None
    assert one.layers[0].intrinsic_dimension is one.layers[0].dimension_low is None
    assert one.layers[0].dimension_rows == 1
    assert one.layers[0].norm > one.layers[0].norm_deviation == 0
    plot_geometry(one)


def test_json_is_read_back(found, tmp_path):
    file = tmp_path / "geometry.json"
    file.write_text(json.dumps(found.to_json()))
    assert load_geometry(file) == found
    earlier = found.to_json()
    for layer in earlier["layers"]:  # as the first versions wrote it
        for name in ("dimension_low", "dimension_high", "dimension_rows"):
            del layer[name]
    file.write_text(json.dumps(earlier))
    assert load_geometry(file).layers[0].norm == found.layers[0].norm
    plot_geometry(load_geometry(file))
    assert f"TwoNN from {found.sample:,} drawn rows;" in load_geometry(file)._repr_html_()
    file.write_text(json.dumps(found.to_json() | {"layers": []}))
    with pytest.raises(RecordError, match="it holds no layer"):
        load_geometry(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "not what `probekit geometry --json` wrote") for text in ("[]", "{")),
        ('{"model": "m"}', "'layers'"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(RecordError, match=message):
        load_geometry(file)
    with pytest.raises(MissingFileError):
        load_geometry(tmp_path / "none.json")


def test_the_figure_has_a_panel_per_measure(found):
    plain = plot_geometry(found)
    titles = [" ".join(axes.get_title().split()) for axes in plain.axes]
    assert "linear CKA" in titles and "effective rank (covariance)" in titles


def test_axes_of_ones_own_are_one_per_panel(found):
    own = Figure(figsize=(8, 5), layout="constrained")
    *places, rest = own.subplots(2, 3).flat
    assert plot_geometry(found, ax=places) is own
    assert all(axes.has_data() for axes in places) and not rest.has_data()
    alone = plot_geometry(found, panel="rank", look=Look(title="Rank"))
    assert alone.axes[0].get_title() == "Rank"
    axes = new_figure(3, 2).add_subplot()
    plot_geometry(found, panel="cka", ax=axes)
    assert axes.get_title() and axes.has_data()


def test_what_cannot_be_drawn_says_why(found):
    with pytest.raises(OptionError, match=r"5 \(cka; .*found 1; .* of these with panel="):
        plot_geometry(found, ax=new_figure(1, 1).add_subplot())
    with pytest.raises(OptionError, match="leave one of the two out"):
        plot_geometry(found, panel="cka", ax=new_figure(1, 1).add_subplot(), look=Look(width=3))
    with pytest.raises(UnknownNameError):
        plot_geometry(found, panel="ranks")


def test_the_command_prints_and_draws(root, tmp_path):
    table = done("geometry", MODEL, TASK, "--cache", root, "--split", "dev").out
    headings = table.split("\n")[0].split()
    assert headings[:5] == ["layer", "covariance", "rank", "cosine", "dimension"]
    assert len(table.strip().split("\n")) == 2 + len(LAYERS)  # headings and a rule
    text = done("geometry", MODEL, TASK, "--cache", root, "--rows", "40", "--json").out
    (tmp_path / "g.json").write_text(text)
    drawn = tmp_path / "g.png"
    more = ("--rows", "40", "--json", "-o", drawn)
    again = done("geometry", MODEL, TASK, "--cache", root, *more).out
    assert json.loads(again) == json.loads(text)
    assert load_geometry(tmp_path / "g.json").to_json() == json.loads(text)
    with Image.open(drawn) as image:
        assert image.size[0] > 600
    bad = ("--cache", root, "-o", tmp_path / "g.gif")
    assert "cannot write a figure as '.gif'" in refused("geometry", MODEL, TASK, *bad)


@pytest.fixture(scope="module")
def moved(root):
    return probekit.change(AFTER, MODEL, TASK, location=Location(cache=root))


def test_change_and_cka_are_those_of_their_definitions(root, moved):
    after, before = (
        probekit.geometry(m, TASK, location=Location(cache=root)) for m in (AFTER, MODEL)
    )
    assert (moved.model, moved.before, moved.array) == (AFTER, MODEL, "words")
    assert moved.rows == moved.of_rows == after.rows == before.rows
    assert (moved.entry, moved.entry_before) == (after.entry, before.entry)
    assert [one.layer for one in moved.layers] == [0, 1, 2]
    x, y = read(root, AFTER), read(root, MODEL)
    for place, one in enumerate(moved.layers):
        own, other = x[:, place], y[:, place]
        shares = np.linalg.norm(own - other, axis=1) / np.linalg.norm(other, axis=1)
        assert one.change == pytest.approx(shares.mean(), rel=1e-12)
        assert one.deviation == pytest.approx(shares.std(), rel=1e-12)
        assert one.cka == pytest.approx(gram_cka(own, other), rel=1e-9)
    # of noise alone, which is 5/3 as large, in layers 0 and 1
    assert moved.layers[0].change == pytest.approx(2 / 3, rel=1e-5)
    assert moved.layers[0].cka == pytest.approx(1)
    assert moved.layers[2].change < 2 / 3


def read(root, model):
    (path,) = (root / model).glob("*/train-????????")
    entry = probekit.open_features(model, TASK, location=Location(cache=root)).entries["train"]
    assert entry.path == path
    kept = entry.examples.rows[entry.examples.valid]
    return entry.arrays["words"].read(kept, [0, 1, 2]).double().numpy()


def test_a_model_is_as_far_from_itself_as_nothing(root):
    own = probekit.change(MODEL, MODEL, TASK, rows=50, location=Location(cache=root))
    assert own.rows == 50 < own.of_rows
    assert all((one.change, one.deviation) == (0, 0) for one in own.layers)
    assert all(one.cka == pytest.approx(1) for one in own.layers)


def test_what_cannot_be_compared_is_refused(root, tmp_path):
    place = Location(cache=root)
    with pytest.raises(DataError, match="hold different texts"):
        probekit.change(AFTER, MODEL, TASK, split="dev", location=place)
    with pytest.raises(OptionError, match="holds words, tokens; choose one of these"):
        probekit.change(AFTER, MODEL, TASK, array="cls", location=place)
    with pytest.raises(OptionError, match="expected at least 1"):
        probekit.change(AFTER, MODEL, TASK, rows=-1, location=place)
    plant(tmp_path, invalid=0.1)
    plant(tmp_path, invalid=0.1, model="upper", layers=(3,))
    plant(tmp_path, invalid=0.1, model="lower", layers=(0,))
    plant(tmp_path, invalid=0.3, model="others")
    place = Location(cache=tmp_path)
    with pytest.raises(OptionError, match=rf"share no layer of one width .*layers 3, {DIM} wide"):
        probekit.change("upper", "lower", TASK, location=place)
    with pytest.raises(DataError, match="their models tokenise the texts differently"):
        probekit.change("others", MODEL, TASK, location=place)


def test_a_change_is_printed_kept_and_drawn(root, moved, tmp_path):
    shared = (AFTER, TASK, "--cache", str(root), "--against", MODEL)
    (row,) = done("geometry", *shared, "--json").rows
    assert row == json.loads(json.dumps(moved.to_json()))
    shown = done("geometry", *shared, "-o", str(tmp_path / "change.png"))
    assert "0.667 ± " in shown.out and "||after - before|| / ||before||" in shown.err
    assert (tmp_path / "change.png").is_file()
    assert "0.667" in moved._repr_html_()
    figure = probekit.plot_change(moved)
    assert isinstance(figure, Figure) and AFTER in figure.get_suptitle()
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [one.change for one in moved.layers]
