import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save

from probekit.errors import DataError, EntryNotFoundError, OptionError, StorageError
from probekit.features import Location
from probekit.results import load_records
from probekit.results.tables import summarise, table
from probekit.train.saved.folder import saved_key
from probekit.train.saved.head import TrainedHead
from probekit.train.sweeps import run_views, worker
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec, depths, product
from tests.planted import DIM, MODEL, NAMES, TASK, plant, plant_all

HEADS = ("last", "p32", "concat")


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    return Location(cache=plant_all(tmp_path_factory.mktemp("cache")))


def base(**options):
    defaults = {"model": MODEL, "task": TASK, "label": "ner", "head": "last", "epochs": 2}
    return TrainSpec(**defaults | options)


def comparable(records):
    return {record.key: {**record.to_json(), "train_seconds": 0} for record in records}


def test_records_come_in_the_order_of_the_plan_and_are_written(location, tmp_path):
    plan = product(base(), {"head": HEADS, "seed": [0, 1], "shots": [None, 4]})
    records = sweep(plan, out=tmp_path / "runs.jsonl", location=location)
    got = [(record.head, record.seed, record.shots) for record in records]
    assert got == [(spec.head, spec.seed, spec.shots) for spec in plan]
    assert comparable(load_records(tmp_path / "runs.jsonl")) == comparable(records)
    record = records[0]
    assert (record.model, record.task, record.label) == (MODEL, TASK, "ner")
    assert record.layers == (3,) and record.protocol == "full" and record.lr == 1e-2
    assert records[1].protocol == "few-shot"
    assert record.scores["test/span-f1"] == record.test_score


def test_a_run_that_diverges_is_recorded_as_such_and_not_run_again(location, tmp_path, caplog):
    plan = product(base(head="p32", as_published=True), {"lr": [1e38, 2e-3], "seed": [0, 1]})
    out = tmp_path / "runs.jsonl"
    records = sweep(plan, out=out, location=location)
    assert [record.diverged for record in records] == [True, True, False, False]
    assert [len(record.weights) for record in records] == [0, 0, 3, 3]
    assert caplog.text.count("no longer finite") == 2
    assert "diverged" not in records[2].to_json()
    assert comparable(load_records(out)) == comparable(records)
    caplog.clear()
    sweep(plan, out=out, location=location)
    assert "no longer finite" not in caplog.text
    header, _, *lines = table(summarise(records)).splitlines()
    assert "diverged" in header
    assert ["2 of 2" in line for line in lines] == [False, True]


def test_a_plan_opens_each_source_once_whatever_its_order(location, tmp_path, monkeypatch):
    out = tmp_path / "runs.jsonl"
    plan = product(base(), {"head": HEADS, "control": [0, 1, 2]})
    sweep(plan, out=out, location=location)
    opened, real = [], run_views.open_features

    def counted(*arguments, control=None, **options):
        opened.append(control)
        return real(*arguments, control=control, **options)

    monkeypatch.setattr(run_views, "open_features", counted)
    records = sweep(plan, out=out, location=location)  # settles the runs again, and trains nothing
    assert opened == [0, 1, 2]
    assert [(record.head, record.label) for record in records] == [
        (spec.head, f"ner (control {spec.control})") for spec in plan
    ]


def test_a_second_sweep_trains_nothing(location, tmp_path, monkeypatch):
    out = tmp_path / "runs.jsonl"
    plan = product(base(), {"head": HEADS})
    first = sweep(plan, out=out, location=location)
    monkeypatch.setattr(worker, "fit_group", None)
    again = sweep(plan, out=out, location=location)
    assert again == first
    assert len(out.read_text().splitlines()) == len(plan)


def test_workers_change_no_number(location, tmp_path, monkeypatch):
    monkeypatch.setattr("probekit.engines.local.usable_cores", lambda: 2)
    plan = product(base(), {"head": HEADS, "seed": [0, 1]})
    one = sweep(plan, out=tmp_path / "one.jsonl", location=location)
    two = sweep(plan, out=tmp_path / "two.jsonl", location=location, workers=2)
    assert comparable(one) == comparable(two)


def test_an_interrupted_sweep_goes_on_where_it_was(location, tmp_path, monkeypatch):
    monkeypatch.setattr("probekit.train.sweeps.run_groups._MOST_MEMBERS", 2)
    plan = product(base(), {"head": HEADS, "seed": [0, 1]})
    out = tmp_path / "runs.jsonl"
    whole = sweep(plan, out=tmp_path / "whole.jsonl", location=location)
    trained = []
    real = worker.fit_group

    def interrupted(streams, *args, **options):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(sum(len(stream.members) for stream in streams))
        return real(streams, *args, **options)

    monkeypatch.setattr(worker, "fit_group", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, out=out, location=location)
    assert len(load_records(out)) == trained[0] == 2
    monkeypatch.setattr(worker, "fit_group", real)
    assert comparable(sweep(plan, out=out, location=location)) == comparable(whole)
    assert len(out.read_text().splitlines()) == len(plan)


def test_a_little_memory_gives_the_same_numbers(location, tmp_path):
    plan = product(base(), {"head": HEADS, "normalize": ["none", "standardize"]})
    where = {"location": location, "device": "cpu"}
    much = sweep(plan, out=tmp_path / "much.jsonl", **where)
    little = sweep(plan, out=tmp_path / "little.jsonl", **where, memory=1000)
    assert comparable(much) == comparable(little)


def test_rows_may_take_what_heads_leave(location, tmp_path, monkeypatch):
    asked, real = [], worker.fit_group

    def spy(streams, *args, **options):
        asked.append(options["memory"])
        return real(streams, *args, **options)

    monkeypatch.setattr(worker, "fit_group", spy)
    plan = product(base(head="concat", epochs=1), {"seed": [0, 1]})
    found = {}
    for memory in (10**7, 1000):
        out = tmp_path / f"{memory}.jsonl"
        found[memory] = sweep(plan, out=out, location=location, memory=memory)
    # Each head counts five times: values, gradients, two moments, the best checkpoint.
    assert asked == [10**7 - 2 * 5 * 4 * found[1000][0].n_params, 0, 0]


def test_every_depth_in_one_sweep(location, tmp_path):
    records = sweep(
        product(base(head="p32", epochs=30, lr=2e-2), {"depth": depths(3)}),
        out=tmp_path / "depth.jsonl",
        location=location,
    )
    assert [record.depth for record in records] == [0, 1, 2, 3]
    assert [record.layers for record in records] == [(0,), (1,), (1, 2), (1, 2, 3)]
    scores = [record.eval_score for record in records]
    assert max(scores[:2]) < 0.5 < 0.8 < min(scores[2:])  # the signal is in layers 2 and 3


def test_depths_always_end_with_the_last():
    assert depths(7, 3) == [0, 3, 6, 7]
    assert depths(7, 3, "0,1,6,-1") == [0, 6, 7]
    with pytest.raises(OptionError, match="--every 3 leaves none of --layers 1:3"):
        depths(7, 3, "1:3")
    with pytest.raises(OptionError, match="--every must be at least 1"):
        depths(3, every=0)


def test_heads_and_predictions_are_saved_on_request(location, tmp_path):
    plan = product(base(), {"seed": [0, 1]})
    out = tmp_path / "runs.jsonl"
    sweep(plan, out=out, location=location)
    folder = str(tmp_path / "heads")
    records = sweep(plan, out=str(out), location=location, save=folder, predictions=True)
    folders = sorted((tmp_path / "heads").iterdir())
    assert len(folders) == 2
    assert TrainedHead.from_pretrained(folders[0]).config["task"] == TASK
    assert json.loads((folders[0] / "config.json").read_text())["label"] == "ner"
    table = pq.read_table(records[0].predictions)
    dev = [row for row in table.to_pylist() if row["split"] == "dev"]
    words = [pair for row in dev for pair in zip(row["gold"], row["predicted"], strict=True)]
    assert len(dev) == 30 and len(words) > 100


def test_a_folder_with_the_head_of_another_run_is_no_saved_head(location, tmp_path):
    out, folder = tmp_path / "runs.jsonl", tmp_path / "head"
    sweep([base(seed=0)], out=out, location=location)
    (other,) = sweep([base(seed=1)], out=out, location=location, save=folder)
    assert saved_key(folder) == other.key
    (wanted,) = sweep([base(seed=0)], out=out, location=location, save=folder)
    assert saved_key(folder) == wanted.key != other.key
    (folder / "config.json").write_text("{")
    assert saved_key(folder) is None


def test_the_head_of_another_run_is_not_overwritten(location, tmp_path):
    out, folder = tmp_path / "runs.jsonl", tmp_path / "head"
    (kept,) = sweep([base(epochs=1)], out=out, location=location, save=folder)
    before = out.read_text("utf-8")
    with pytest.raises(OptionError, match=r"--save .*head of another run .*label ner, head last"):
        sweep([base(head="p32", epochs=1)], out=out, location=location, save=folder)
    assert saved_key(folder) == kept.key
    assert out.read_text("utf-8") == before  # nothing was trained
    (again,) = sweep([base(epochs=1)], out=out, location=location, save=folder)
    assert again.key == kept.key


def test_a_place_that_cannot_hold_a_head_is_refused_before_training(location, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"--save .*head: .*file is a file"):
        sweep([base()], out=tmp_path / "r.jsonl", location=location, save=tmp_path / "file/head")
    assert not (tmp_path / "r.jsonl").exists()


def test_layers_that_a_depth_cuts_away_are_refused(location, tmp_path):
    with pytest.raises(OptionError, match="--depth 1 leaves none of --layers 2:4"):
        sweep([base(layers="2:4", depth=1)], out=tmp_path / "r.jsonl", location=location)


def test_a_model_is_not_overwritten_with_a_head(location, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "bert"}')
    with pytest.raises(OptionError, match=r"config\.json is no saved head's, perhaps a model's"):
        sweep([base(epochs=1)], out=tmp_path / "r.jsonl", location=location, save=tmp_path)
    assert config.read_text() == '{"model_type": "bert"}'
    weights = tmp_path / "alone" / "model.safetensors"
    weights.parent.mkdir()
    for data in (b"precious", save({"head.weight": torch.zeros(2)})):
        weights.write_bytes(data)
        with pytest.raises(OptionError, match=r"model\.safetensors is no saved head's"):
            sweep(
                [base(epochs=1)], out=tmp_path / "r.jsonl", location=location, save=weights.parent
            )
        assert weights.read_bytes() == data
    config.write_text("{ // mine")
    with pytest.raises(OptionError, match=r"config\.json is no saved head's"):
        sweep([base(epochs=1)], out=tmp_path / "r.jsonl", location=location, save=tmp_path)
    assert config.read_text() == "{ // mine"
    ours = save({"head.weight": torch.zeros(2)}, {"made_by": "probekit"})
    weights.write_bytes(ours)  # a kill left these alone
    sweep([base()], out=tmp_path / "r.jsonl", location=location, save=weights.parent)
    assert (weights.parent / "config.json").exists()


def test_rows_are_to_fit_the_memory_of_the_device(location, tmp_path, monkeypatch):
    asked = []

    def little(device):
        asked.append(device)
        return 400_000

    monkeypatch.setattr("probekit.train.residency.free_memory", little)
    monkeypatch.setattr("probekit.train.sweeps.run.pick_device", lambda name: "meta")
    (task,) = _planned(location, tmp_path)
    assert asked == [torch.device("cpu")], "devices of other machines are not seen from here"
    assert task.device == "auto"
    monkeypatch.setattr("probekit.train.sweeps.run.runs_here", lambda engine: True)
    (task,) = _planned(location, tmp_path)
    assert asked[1:] == [torch.device("meta")]
    n_params = (DIM + 1) * len(NAMES)  # a linear decoder on the last layer
    assert task.device == "meta" and task.memory == 200_000 - 5 * 4 * n_params


def test_data_that_changes_while_a_sweep_runs(location, tmp_path):
    """What a run was planned with is what its record says; on other data it does not train."""
    task, *_ = _planned(location, tmp_path)
    plant_all(tmp_path / "other", seed=5)
    changed = replace(task, location=Location(cache=tmp_path / "other"), sweep="another")
    with pytest.raises(DataError, match=r"conll: the labels, .* changed while the sweep ran"):
        list(changed(print))
    (record,) = task(lambda steps: None)
    assert {record.key} == task.specs.keys()


def _planned(location, folder):
    """Return the tasks that a sweep hands to its engine."""
    planned = []

    def engine(tasks, **options):
        planned.extend(tasks)
        yield from ()

    with pytest.raises(KeyError):  # nothing was trained
        sweep([base()], out=folder / "runs.jsonl", location=location, engine=engine)
    return planned


def test_too_many_shots_name_the_largest_k(location, tmp_path):
    with pytest.raises(OptionError, match=r"31 x 2 classes = 62 .* holds 60; .* K here is 30"):
        sweep([base(shots=31)], out=tmp_path / "r.jsonl", location=location)


def test_layers_and_depths_that_are_not_there(location, tmp_path):
    with pytest.raises(OptionError, match="--depth 4: this model has 3 blocks"):
        sweep([base(depth=4)], out=tmp_path / "r.jsonl", location=location)
    plant(tmp_path, layers=(0, 3), signal=(3,))
    plant(tmp_path, "dev", layers=(0, 3), signal=(3,))
    with pytest.raises(OptionError, match=r"reads layer 1, but .* holds layers \[0, 3\]"):
        sweep([base(head="p32")], out=tmp_path / "r", location=Location(cache=tmp_path))


def test_without_dev_a_hold_out_serves(tmp_path):
    plant(tmp_path)
    where = Location(cache=tmp_path)
    with pytest.raises(DataError, match="dev split is not in the cache"):
        sweep([base()], out=tmp_path / "r.jsonl", location=where)
    records = sweep([base(hold_out=0.25)], out=tmp_path / "r.jsonl", location=where)
    assert records[0].protocol == "full, hold-out 0.25"
    assert records[0].test_score is None


def test_an_empty_cache_says_what_to_type(tmp_path):
    with pytest.raises(EntryNotFoundError, match="probekit extract planted conll"):
        sweep([base()], out=tmp_path / "r.jsonl", location=Location(cache=tmp_path))
