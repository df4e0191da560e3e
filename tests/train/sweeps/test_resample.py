"""Runs on bootstrap resamples: what is drawn, that nothing is chosen on copies, and refits."""

from dataclasses import replace

import numpy as np
import pytest

from probekit import TrainSpec, fit, load_records, overthinking, product, sweep_depths
from probekit.errors import OptionError
from probekit.features import Location, open_features
from probekit.results import select
from probekit.results.overthinking import resample_of
from probekit.train.sampling import bootstrap_sample
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run_views import fitted_and_judging, sample
from probekit.train.sweeps.worker import make_streams
from tests.planted import LAYERS, MODEL, TASK, plant, plant_all

BASE = TrainSpec(model=MODEL, task=TASK, label="ner", head="last")


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """Layers 2 and 3 show the label, so that the last depth is as good as the one before."""
    return Location(cache=plant_all(tmp_path_factory.mktemp("cache"), noise=0.05))


@pytest.fixture(scope="module")
def splits(location):
    return open_features(MODEL, TASK, "ner", location)


def test_a_resample_is_drawn_with_replacement_by_seed_and_number_alone():
    examples = np.arange(100, 300)
    drawn = bootstrap_sample(examples, number=3, seed=1)
    assert len(drawn) == 200 and set(drawn) < set(examples)
    assert (np.diff(drawn) >= 0).all()
    assert 0.55 < len(set(drawn)) / 200 < 0.72  # 1 - 1/e of them
    assert np.array_equal(drawn, bootstrap_sample(examples, number=3, seed=1))
    for other in ({"number": 4, "seed": 1}, {"number": 3, "seed": 2}):
        assert not np.array_equal(drawn, bootstrap_sample(examples, **other))


def test_every_depth_sees_the_same_resample(splits):
    specs = product(replace(BASE, l2=0.1, resample=2), {"depth": LAYERS})
    streams, _ = make_streams([resolve(one, splits) for one in specs], splits)
    (stream,) = streams
    assert len(stream.members) == len(LAYERS)
    expected = bootstrap_sample(sample(specs[0], splits), number=2, seed=0)
    assert stream.train.positions.tolist() == expected.tolist()
    whole, _ = make_streams([resolve(BASE, splits)], splits)
    assert whole[0].train.positions.tolist() == list(range(60))


def test_seeds_draw_other_resamples_although_a_solver_has_no_other_use_for_them(splits):
    plain, drawn = resolve(BASE, splits), resolve(replace(BASE, l2=0.1, resample=1), splits)
    assert plain.same_for_all_seeds and not drawn.same_for_all_seeds
    specs = product(replace(BASE, l2=0.1, resample=1), {"seed": [0, 1]})
    one, two = make_streams([resolve(spec, splits) for spec in specs], splits)[0]
    assert one.train.positions.tolist() != two.train.positions.tolist()


@pytest.mark.parametrize("number", range(1, 6))
def test_what_chooses_is_held_out_before_a_resample_is_drawn(splits, number):
    spec = replace(BASE, fit="adam", select="hold-out:0.2")
    drawn = sample(spec, splits)
    fitted, judging = fitted_and_judging(spec, splits, drawn)
    again, same = fitted_and_judging(replace(spec, resample=number), splits, drawn)
    assert same.tolist() == judging.tolist() and len(again) == len(fitted)
    assert not set(again) & set(judging) and set(again) < set(fitted)


def test_folds_of_a_resample_are_refused(splits):
    with pytest.raises(OptionError, match=r"resample=1 .* copies of one on both sides: give l2"):
        resolve(replace(BASE, select="cv:5", resample=1), splits)
    assert resolve(replace(BASE, select="dev", resample=1), splits).spec.select == "dev"
    with pytest.raises(OptionError, match="--resample must be a whole number of at least 1"):
        replace(BASE, resample=0)
    with pytest.raises(OptionError, match="nothing is trained"):
        replace(BASE, resample=1, shots=0, init_from="saved")


def test_a_solver_fits_the_copies_as_a_fit_on_the_repeated_rows_does(location, splits):
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    spec = replace(BASE, l2=0.05, resample=3, layers="2")
    found = fit(spec, location=location)
    train = splits.view("train", valid_only=True)
    drawn = train.take(bootstrap_sample(sample(spec, splits), number=3, seed=0))
    rows = drawn.array.read(drawn.rows, (2,))[:, 0].numpy()
    scaler = StandardScaler().fit(rows)
    judge = LogisticRegression(C=1 / (0.05 * len(rows)), max_iter=2000)
    judge.fit(scaler.transform(rows), drawn.targets)
    dev = splits.view("dev")
    expected = judge.predict(scaler.transform(dev.array.read(dev.rows, (2,))[:, 0].numpy()))
    assert (found.predictions["dev"] == expected).mean() > 0.99


@pytest.fixture(scope="module")
def trained(location, tmp_path_factory):
    """Probes of every depth with their refits."""
    out = tmp_path_factory.mktemp("runs") / "conll.jsonl"
    plan = product(BASE, {"depth": LAYERS})
    return out, plan, sweep_depths(plan, out=out, location=location)


def test_refits_have_the_strength_of_what_they_refit(trained):
    _, _, records = trained
    assert len(records) == 4 + 2 * 3
    probes = {record.depth: record for record in records if record.resample is None}
    for record in records:
        if record.resample is not None:
            strength = probes[record.depth].diagnosis["strength"]
            assert (record.l2, record.select) == (strength, None)
            assert record.depth in (record.resample - 1, 3)
            assert record.predictions is not None
    assert [resample_of(depth) for depth in LAYERS[:3]] == [1, 2, 3]


def test_a_second_run_trains_nothing_and_tables_leave_refits_out(trained, location):
    out, plan, records = trained
    before = out.read_bytes()
    again = sweep_depths(plan, out=out, location=location)
    assert out.read_bytes() == before and again == records
    loaded = load_records(out)
    assert [record.depth for record in select(loaded, [])] == list(LAYERS)
    assert {record.depth for record in select(loaded, ["resample=2"])} == {1, 3}
    assert len(select(loaded, ["depth=1"], refits=True)) == 1 + 6


def test_layers_from_the_planted_one_on_are_wasted(trained):
    out, _, _ = trained
    (found,) = overthinking(load_records(out), samples=200)
    shares = {share.name: share for share in found.shares}
    assert found.split == "test" and found.right.value > 0.99
    assert shares["wasteful"].share.value > 0.98
    # right at depth 2, and before by guessing one of five classes
    assert 1 <= shares["layers wasted"].share.value < 1.8
    assert shares["destructive"].share.value < 0.01


def test_a_planted_layer_that_the_last_forgets(tmp_path):
    location = Location(cache=plant_all(tmp_path / "cache", signal=(2,), noise=0.05))
    out = tmp_path / "conll.jsonl"
    records = sweep_depths(product(BASE, {"depth": LAYERS[1:]}), out=out, location=location)
    (found,) = overthinking(records, samples=500)
    shares = {share.name: share for share in found.shares}
    assert shares["cumulative"].share.value > 0.99
    assert shares["destructive"].share.value == pytest.approx(1 - found.right.value, abs=0.01)
    assert shares["destructive"].excess.low > 0.2 and shares["destructive"].beyond_guessing.low > 0
    assert found.chosen.depths == (2,) and found.chosen.net.low > 0.2 and found.chosen.p[0] < 1e-6


def test_noise_does_no_better_than_guessing(tmp_path):
    location = Location(cache=plant_all(tmp_path / "cache", signal=(), names=("O", "B-PER")))
    out = tmp_path / "conll.jsonl"
    records = sweep_depths(product(BASE, {"depth": LAYERS}), out=out, location=location)
    (found,) = overthinking(records, samples=500)
    shares = {share.name: share for share in found.shares}
    assert shares["cumulative"].share.value > 0.8  # although nothing is known
    assert shares["destructive"].beyond_guessing.holds_zero
    assert found.chosen.net.holds_zero


def test_layers_that_are_alike_do_not_exceed_chance(tmp_path):
    """The same noise in every layer: the probes of all depths are those of the last one."""
    for split, seed in (("train", 0), ("dev", 1), ("test", 2)):
        plant(tmp_path / "cache", split, seed=seed, noise=0.6, signal=LAYERS, same=True)
    out = tmp_path / "conll.jsonl"
    location = Location(cache=tmp_path / "cache")
    records = sweep_depths(product(BASE, {"depth": LAYERS[1:]}), out=out, location=location)
    (found,) = overthinking(records, samples=200)
    assert all(share.excess.value == 0 for share in found.shares)
    (destructive,) = (share for share in found.shares if share.name == "destructive")
    assert destructive.chance.value > 0  # which refits differ from


def test_steps_are_refitted_as_well(location, tmp_path):
    plan = product(replace(BASE, fit="adam", epochs=2), {"depth": (2, 3), "seed": [0, 1]})
    records = sweep_depths(plan, out=tmp_path / "conll.jsonl", location=location)
    assert len(records) == 4 + 4
    (found,) = overthinking(records, samples=100)
    assert found.n_seeds == 2 and found.depths == (2, 3)
    with pytest.raises(OptionError, match="--lr search"):
        sweep_depths([replace(plan[0], lr="search")], out=tmp_path / "x.jsonl", location=location)
