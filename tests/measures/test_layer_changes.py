"""How far layers were moved: against numpy, over entries that lie otherwise; what is refused."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

import probekit
from probekit.errors import DataError, OptionError
from probekit.features import Location
from tests.cli.console import done
from tests.measures.test_measures import gram_cka
from tests.planted import DIM, MODEL, TASK, plant

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
    return probekit.change(AFTER, MODEL, TASK, location=Location(cache=root))


def test_change_and_cka_are_those_of_their_definitions(root, found):
    after, before = (
        probekit.geometry(m, TASK, location=Location(cache=root)) for m in (AFTER, MODEL)
    )
    assert (found.model, found.before, found.array) == (AFTER, MODEL, "words")
    assert found.rows == found.of_rows == after.rows == before.rows
    assert (found.entry, found.entry_before) == (after.entry, before.entry)
    assert [one.layer for one in found.layers] == [0, 1, 2]
    x, y = read(root, AFTER), read(root, MODEL)
    for place, one in enumerate(found.layers):
        own, other = x[:, place], y[:, place]
        shares = np.linalg.norm(own - other, axis=1) / np.linalg.norm(other, axis=1)
        assert one.change == pytest.approx(shares.mean(), rel=1e-12)
        assert one.deviation == pytest.approx(shares.std(), rel=1e-12)
        assert one.cka == pytest.approx(gram_cka(own, other), rel=1e-9)
    # of noise alone, which is 5/3 as large, in layers 0 and 1
    assert found.layers[0].change == pytest.approx(2 / 3, rel=1e-5)
    assert found.layers[0].cka == pytest.approx(1)
    assert found.layers[2].change < 2 / 3


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


def test_it_is_printed_kept_and_drawn(root, found, tmp_path):
    shared = (AFTER, TASK, "--cache", str(root), "--against", MODEL)
    (row,) = done("geometry", *shared, "--json").rows
    assert row == json.loads(json.dumps(found.to_json()))
    shown = done("geometry", *shared, "-o", str(tmp_path / "change.png"))
    assert "0.667 ± " in shown.out and "||after - before|| / ||before||" in shown.err
    assert (tmp_path / "change.png").is_file()
    assert "0.667" in found._repr_html_()
    figure = probekit.plot_change(found)
    assert isinstance(figure, Figure) and AFTER in figure.get_suptitle()
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [one.change for one in found.layers]
