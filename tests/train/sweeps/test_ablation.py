"""Sweeps that leave layers out: what is recorded, trained again, resumed, hidden and refused."""

import json

import pytest

from probekit.errors import OptionError, RecordError, UnknownNameError
from probekit.features import Location
from probekit.results import load_records, select
from probekit.results.summaries.layer_measures import ABLATION, SHARES
from probekit.results.summaries.typeset import text_table
from probekit.results.tables import measure_table
from probekit.train.baselines import run_baselines
from probekit.train.sweeps import worker
from probekit.train.sweeps.run import fit, sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import MODEL, TASK, plant_all
from tests.results.samples import make_record
from tests.train.sweeps.starts import save

SIGNAL = 2


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"), signal=(SIGNAL,), noise=0.15)
    return Location(cache=root)


def spec(**options):
    given = {"model": MODEL, "task": TASK, "label": "ner", "head": "p32", "l2": 1e-3}
    return TrainSpec(**given | options)


def stepped(head, **options):
    return spec(**{"head": head, "l2": None, "epochs": 8, "lr": 1e-2} | options)


@pytest.fixture
def trained(monkeypatch):
    """The runs that were trained, in words."""
    names, fit_runs = [], worker.fit_runs

    def noting(runs, *args, **options):
        names.extend((run.spec.head, run.spec.left_out) for run in runs)
        return fit_runs(runs, *args, **options)

    monkeypatch.setattr(worker, "fit_runs", noting)
    return names


def test_runs_beside_others_that_read_more_layers(location, tmp_path):
    plan = [stepped("p32", seed=0), stepped("attention-fusion", seed=1)]  # layers 1 to 3, 0 to 3
    together = sweep(plan, out=tmp_path / "r.jsonl", location=location, ablate="mean")
    alone = [fit(one, location=location, ablate=True) for one in plan]
    assert [one.ablation for one in together] == [one.ablation for one in alone]
    assert list(together[0].ablation) == [1, 2, 3]


RATES = {
    "mean": 0.1,
    "p32": 0.1,
    "scalar-mix": 0.1,
    "attention-fusion": 0.1,
    "concat": 0.01,
    "concat-ffn": 0.1,
    "dwatt": 0.01,
    "depth-lstm": 0.03,
    "laya:width=16:scorer=16": 0.01,
}
"""Of heads that read several layers."""


def test_every_head_loses_what_the_one_layer_has_that_carries_the_signal(location, tmp_path):
    options = {"epochs": 15, "decoder": "linear:dropout=0"}
    plan = [stepped(head, lr=rate, **options) for head, rate in RATES.items()]
    records = sweep(plan, out=tmp_path / "r.jsonl", location=location, ablate="refit")
    for record in records:
        assert record.ablated == "refit" and list(record.ablation) == list(record.layers)
        others = [abs(value) for layer, value in record.ablation.items() if layer != SIGNAL]
        assert record.ablation[SIGNAL] > max(1, 3 * max(others))  # log(5) nats are at stake
    # the run without a layer is the ordinary run on the others, its loss the recorded one
    without = stepped("p32", lr=RATES["p32"], layers="1,3", **options)
    (alone,) = sweep([without], out=tmp_path / "alone.jsonl", location=location)
    gain = alone.scores["dev/loss"] - records[1].scores["dev/loss"]
    assert records[1].ablation[SIGNAL] == pytest.approx(gain, abs=1e-12)
    (left_out,) = select(load_records(tmp_path / "r.jsonl"), ["left_out=2", "head=p32"])
    assert (left_out.key, left_out.layers) == (alone.key, (1, 3))


def test_an_ablation_asked_for_later_is_added_and_nothing_is_lost(location, tmp_path, trained):
    out = tmp_path / "r.jsonl"
    (plain,) = sweep([spec(head="mean")], out=out, location=location, predictions=True)
    assert plain.ablated is None and "ablation" not in plain.to_json()
    (found,) = sweep([spec(head="mean")], out=out, location=location, ablate="mean")
    assert found.key == plain.key and len(trained) == 2
    assert found.predictions == plain.predictions and found.eval_score == plain.eval_score
    assert (found.ablated, set(found.ablation)) == ("mean", {1, 2, 3})
    assert sweep([spec(head="mean")], out=out, location=location, ablate="mean") == [found]
    assert sweep([spec(head="mean")], out=out, location=location) == [found] and len(trained) == 2
    # another output wanted: trained again, and the ablation stays
    again = sweep([spec(head="mean")], out=out, location=location, save=tmp_path / "head")[0]
    assert len(trained) == 3 and again.ablation == found.ablation
    (result,) = [fit(spec(head="mean"), location=location, ablate=True)]
    assert result.ablation == pytest.approx(found.ablation, abs=1e-6)


def test_refits_resume_and_are_left_out_unless_asked_for(location, tmp_path, trained):
    out, wanted = tmp_path / "r.jsonl", {"location": location, "ablate": "refit"}
    (explicit,) = sweep([spec(head="mean", layers="1,2")], out=out, location=location)
    plan = [spec(head="mean"), spec(head="last")]
    record, last = sweep(plan, out=out, **wanted)
    assert trained == [("mean", None)] * 2 + [("last", None), ("mean", 1), ("mean", 2)]
    assert last.ablated is None
    assert sweep(plan, out=out, **wanted) == [record, last] and len(trained) == 5
    every = load_records(out)
    assert {one.left_out for one in every} == {None, 1, 2}
    assert {one.key for one in select(every, [])} == {explicit.key, record.key, last.key}
    assert [one.layers for one in select(every, ["left_out=1"])] == [(2, 3)]
    # a run that is asked for in its own right is no longer left out
    sweep([spec(head="mean", layers="2,3")], out=out, location=location)
    assert len(select(load_records(out), [])) == 4 and len(trained) == 5
    with pytest.raises(RecordError, match="ablation was not finished; run it again"):
        select([one for one in load_records(out) if one.left_out], [])


def test_what_cannot_be_left_out_is_refused(location, tmp_path):
    out = tmp_path / "r.jsonl"
    with pytest.raises(UnknownNameError, match="unknown way to leave a layer out 'median'"):
        sweep([spec()], out=out, location=location, ablate="median")
    with pytest.raises(OptionError, match=r"reads one alone \(last, extra-layers\). Give a head"):
        plan = [spec(head="last"), stepped("extra-layers")]
        sweep(plan, out=out, location=location, ablate="mean")
    saved = save(tmp_path, location)
    plan = [stepped("attention-fusion", fusion_from=str(saved), decoder="linear:dropout=0")]
    with pytest.raises(OptionError, match="reads just its own: give --ablate mean"):
        sweep(plan, out=out, location=location, ablate="refit")
    assert not out.exists()
    (record,) = sweep(plan, out=out, location=location, ablate="mean")
    assert record.ablated == "mean" and len(record.ablation) == 4


def test_baselines_have_all_layers(location, tmp_path):
    out = tmp_path / "r.jsonl"
    found = run_baselines([stepped("concat", epochs=1)], out=out, location=location, ablate="mean")
    assert [one.ablated for one in found.heads] == ["mean"]
    assert sum(one.ablated is not None for one in load_records(out)) == 1


def test_seeds_have_one_ablation_each(location, tmp_path):
    plan = product(stepped("concat", shots=4, epochs=2), {"seeds": 2})
    first, second = sweep(plan, out=tmp_path / "r.jsonl", location=location, ablate="mean")
    assert first.ablation != second.ablation


def test_tables():
    records = [
        make_record(
            "p32", seed, shares={1: 0.25, 2: 0.75}, ablation={1: 0.5, 2: 1.0 + seed}, ablated="mean"
        )
        for seed in (0, 1)
    ] + [make_record("concat", ablation={1: -0.25, 2: 2.0}, ablated="refit")]
    assert text_table(measure_table(records, SHARES).columns).splitlines() == [
        "layer    p32",
        "-----  -----",
        "1      0.250",
        "2      0.750",
    ]
    assert text_table(measure_table(records, ABLATION).columns).splitlines() == [
        "layer        p32, mean  concat, refit",
        "-----  ---------------  -------------",
        "1      0.5000                 -0.2500",
        "2      1.5000 ± 6.3531         2.0000",
    ]
    text = measure_table(records, ABLATION).caption
    assert "loss on dev without a layer less that with all (nats per row): its rows are" in text
    assert "(mean, nothing fitted again) or the head is fitted again on the other" in text
    rows = [
        json.loads(line) for line in measure_table(records, ABLATION).text("jsonl").splitlines()
    ]
    assert rows[0]["series"] == "p32, mean" and rows[1]["mean"] == 1.5
    with pytest.raises(RecordError, match=r"holds the loss without a layer; run .* --ablate mean"):
        measure_table([make_record()], ABLATION)
    with pytest.raises(RecordError, match="none of 1 records holds shares of the logits"):
        measure_table([make_record()], SHARES)
