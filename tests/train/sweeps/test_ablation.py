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
from probekit.train.sweeps.run import fit
from tests.planted import plant_all
from tests.results.samples import make_record
from tests.train.sweeps.samples import PLAIN, fused, save, spec

SIGNAL = 2
MEAN = spec(head="mean", l2=1e-3)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"), signal=(SIGNAL,), noise=0.15)
    return Location(cache=root)


@pytest.fixture
def trained(monkeypatch):
    """The runs that were trained, in words."""
    names, fit_runs = [], worker.fit_runs

    def noting(runs, *args, **options):
        names.extend((run.spec.head, run.spec.left_out) for run in runs)
        return fit_runs(runs, *args, **options)

    monkeypatch.setattr(worker, "fit_runs", noting)
    return names


def test_runs_beside_others_that_read_more_layers(words, swept):
    plan = [fused(head="p32", epochs=2, seed=0), fused(epochs=2, seed=1)]
    together = swept(plan, ablate="mean")  # layers 1 to 3, 0 to 3
    alone = [fit(one, location=words, ablate=True) for one in plan]
    assert [one.ablation for one in together] == [one.ablation for one in alone]
    assert [list(one.ablation) for one in together] == [[1, 2, 3], [0, 1, 2, 3]]


def test_a_head_loses_what_the_one_layer_has_that_carries_the_signal(swept, tmp_path):
    rates = {"p32": 0.1, "concat": 0.01}
    plan = [fused(head=head, lr=lr, epochs=15) for head, lr in rates.items()]
    records = swept(plan, ablate="refit")
    for record in records:
        assert record.ablated == "refit" and list(record.ablation) == list(record.layers)
        others = [abs(value) for layer, value in record.ablation.items() if layer != SIGNAL]
        assert record.ablation[SIGNAL] > max(1, 3 * max(others))  # log(5) nats are at stake
    # the run without a layer is the ordinary run on the others, its loss the recorded one
    (alone,) = swept([fused(head="p32", lr=0.1, epochs=15, layers="1,3")], "alone")
    gain = alone.scores["dev/loss"] - records[0].scores["dev/loss"]
    assert records[0].ablation[SIGNAL] == pytest.approx(gain, abs=1e-12)
    (left_out,) = select(load_records(tmp_path / "r.jsonl"), ["left_out=2", "head=p32"])
    assert (left_out.key, left_out.layers) == (alone.key, (1, 3))


def test_an_ablation_asked_for_later_is_added_and_nothing_is_lost(words, swept, tmp_path, trained):
    (plain,) = swept([MEAN], predictions=True)
    assert plain.ablated is None and "ablation" not in plain.to_json()
    (found,) = swept([MEAN], ablate="mean")
    assert found.key == plain.key and len(trained) == 2
    assert found.predictions == plain.predictions and found.eval_score == plain.eval_score
    assert (found.ablated, set(found.ablation)) == ("mean", {1, 2, 3})
    assert swept([MEAN], ablate="mean") == swept([MEAN]) == [found] and len(trained) == 2
    # another output wanted: trained again, and the ablation stays
    (again,) = swept([MEAN], save=tmp_path / "head")
    assert len(trained) == 3 and again.ablation == found.ablation
    alone = fit(MEAN, location=words, ablate=True)
    assert alone.ablation == pytest.approx(found.ablation, abs=1e-6)


def test_refits_resume_and_are_left_out_unless_asked_for(swept, tmp_path, trained):
    (explicit,) = swept([spec(head="mean", l2=1e-3, layers="1,2")])
    plan = [MEAN, spec(l2=1e-3)]
    record, last = swept(plan, ablate="refit")
    assert trained == [("mean", None)] * 2 + [("last", None), ("mean", 1), ("mean", 2)]
    assert last.ablated is None
    assert swept(plan, ablate="refit") == [record, last] and len(trained) == 5
    every = load_records(tmp_path / "r.jsonl")
    assert {one.left_out for one in every} == {None, 1, 2}
    assert {one.key for one in select(every, [])} == {explicit.key, record.key, last.key}
    assert [one.layers for one in select(every, ["left_out=1"])] == [(2, 3)]
    # a run that is asked for in its own right is no longer left out
    swept([spec(head="mean", l2=1e-3, layers="2,3")])
    every = load_records(tmp_path / "r.jsonl")
    assert len(select(every, [])) == 4 and len(trained) == 5
    with pytest.raises(RecordError, match="from an ablation that was not finished; run it again"):
        select([one for one in every if one.left_out], [])


def test_what_cannot_be_left_out_is_refused(words, swept, tmp_path):
    with pytest.raises(UnknownNameError, match="unknown way to leave a layer out 'median'"):
        swept([MEAN], ablate="median")
    with pytest.raises(
        OptionError, match=r"reads a single one \(last, extra-layers\). Give a head"
    ):
        swept([spec(l2=1e-3), fused(head="extra-layers")], ablate="mean")
    plan = [fused(fusion_from=str(save(tmp_path, words, epochs=1)), epochs=1)]
    with pytest.raises(OptionError, match="cannot do: give --ablate mean"):
        swept(plan, ablate="refit")
    assert not (tmp_path / "r.jsonl").exists()
    (record,) = swept(plan, ablate="mean")
    assert record.ablated == "mean" and len(record.ablation) == 4


def test_baselines_have_all_layers(words, tmp_path):
    plan, out = [fused(head="concat", decoder=PLAIN, epochs=1)], tmp_path / "r.jsonl"
    found = run_baselines(plan, out=out, location=words, ablate="mean")
    assert [one.ablated for one in found.heads] == ["mean"]
    assert sum(one.ablated is not None for one in load_records(out)) == 1


def test_tables():
    mean = {"shares": {1: 0.25, 2: 0.75}, "ablated": "mean"}
    records = [
        *(make_record("p32", seed, ablation={1: 0.5, 2: 1.0 + seed}, **mean) for seed in (0, 1)),
        make_record("concat", ablation={1: -0.25, 2: 2.0}, ablated="refit"),
    ]
    assert text_table(measure_table(records, SHARES).columns).splitlines() == [
        "layer    p32",
        "-----  -----",
        "1      0.250",
        "2      0.750",
    ]
    table = measure_table(records, ABLATION)
    assert text_table(table.columns).splitlines() == [
        "layer        p32, mean  concat, refit",
        "-----  ---------------  -------------",
        "1      0.5000                 -0.2500",
        "2      1.5000 ± 6.3531         2.0000",
    ]
    for said in (
        "rise of the dev loss without a layer (nats per row): its",
        "(mean, nothing refitted) or the",
    ):
        assert said in table.caption
    rows = [json.loads(line) for line in table.text("jsonl").splitlines()]
    assert rows[0]["series"] == "p32, mean" and rows[1]["mean"] == 1.5
    with pytest.raises(RecordError, match=r"holds the loss without a layer; run .* --ablate mean"):
        measure_table([make_record()], ABLATION)
    with pytest.raises(RecordError, match="none of 1 records holds shares of the logits"):
        measure_table([make_record()], SHARES)
