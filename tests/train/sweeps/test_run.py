"""Sweeps: what they record, resume, save and refuse."""

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
from probekit.train.sweeps.specs import depths, product
from tests.planted import DIM, MODEL, NAMES, TASK, plant, plant_all
from tests.train.sweeps.samples import spec

SHORT = spec(label="ner", epochs=2)
HEADS = {"head": ["last", "p32", "concat"]}


def comparable(records):
    return {record.key: {**record.to_json(), "train_seconds": 0} for record in records}


def test_records_come_in_the_order_of_the_plan_and_are_written(swept, tmp_path, monkeypatch):
    plan = product(SHORT, {**HEADS, "seed": [0, 1], "shots": [None, 4]})
    records = swept(plan)
    assert [(record.head, record.seed, record.shots) for record in records] == [
        (spec.head, spec.seed, spec.shots) for spec in plan
    ]
    assert comparable(load_records(tmp_path / "r.jsonl")) == comparable(records)
    record = records[0]
    assert (record.model, record.task, record.label) == (MODEL, TASK, "ner")
    assert record.layers == (3,) and record.protocol == "full" and record.lr == 1e-2
    assert records[1].protocol == "few-shot"
    assert record.scores["test/span-f1"] == record.test_score
    # a second sweep trains nothing
    monkeypatch.setattr(worker, "fit_group", None)
    assert swept(plan) == records
    assert swept(plan[0]) == records[:1], "one spec is a plan"
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == len(plan)


def test_a_run_that_diverges_is_recorded_as_such_and_not_run_again(swept, tmp_path, caplog):
    plan = product(replace(SHORT, head="p32", as_published=True), {"lr": [1e38, 2e-3]})
    records = swept(plan)
    assert [(record.diverged, len(record.weights)) for record in records] == [(True, 0), (False, 3)]
    assert caplog.text.count("no longer finite") == 1
    assert "diverged" not in records[1].to_json()
    assert comparable(load_records(tmp_path / "r.jsonl")) == comparable(records)
    caplog.clear()
    swept(plan)
    assert "no longer finite" not in caplog.text
    header, _, *lines = table(summarise(records)).splitlines()
    assert "diverged" in header
    assert ["1 of 1" in line for line in lines] == [False, True]


def test_a_plan_opens_each_source_once_whatever_its_order(swept, monkeypatch):
    plan = product(SHORT, {**HEADS, "control": [0, 1, 2]})
    swept(plan)
    opened, real = [], run_views.open_features

    def counted(*arguments, control=None, **options):
        opened.append(control)
        return real(*arguments, control=control, **options)

    monkeypatch.setattr(run_views, "open_features", counted)
    records = swept(plan)  # settles the runs again, and trains nothing
    assert opened == [0, 1, 2]
    assert [(record.head, record.label) for record in records] == [
        (spec.head, f"ner (control {spec.control})") for spec in plan
    ]


def test_an_interrupted_sweep_goes_on_where_it_was(swept, tmp_path, monkeypatch):
    monkeypatch.setattr("probekit.train.sweeps.sweeping._MOST_MEMBERS", 2)
    plan = product(SHORT, {**HEADS, "seed": [0, 1]})
    uninterrupted = swept(plan, "whole")
    trained, real = [], worker.fit_group

    def interrupted(streams, *args, **options):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(sum(len(stream.members) for stream in streams))
        return real(streams, *args, **options)

    monkeypatch.setattr(worker, "fit_group", interrupted)
    with pytest.raises(KeyboardInterrupt):
        swept(plan)
    assert len(load_records(tmp_path / "r.jsonl")) == trained[0] == 2
    monkeypatch.setattr(worker, "fit_group", real)
    assert comparable(swept(plan)) == comparable(uninterrupted)
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == len(plan)


def test_rows_may_take_what_heads_leave(swept, monkeypatch):
    asked, real = [], worker.fit_group

    def spy(streams, *args, **options):
        asked.append(options["memory"])
        return real(streams, *args, **options)

    monkeypatch.setattr(worker, "fit_group", spy)
    plan = product(replace(SHORT, head="concat", epochs=1), {"seed": [0, 1]})
    records, _ = (swept(plan, f"{memory}", memory=memory) for memory in (10**7, 1000))
    # Each head counts five times: values, gradients, two moments, the best checkpoint.
    assert asked == [10**7 - 2 * 5 * 4 * records[0].n_params, 0, 0]


def test_depths_always_end_with_the_last():
    assert depths(7, 3) == [0, 3, 6, 7]
    assert depths(7, 3, "0,1,6,-1") == [0, 6, 7]
    with pytest.raises(OptionError, match="--every 3 leaves none of --layers 1:3"):
        depths(7, 3, "1:3")
    with pytest.raises(OptionError, match="--every must be at least 1"):
        depths(3, every=0)


def test_heads_and_predictions_are_saved_on_request(swept, tmp_path):
    plan = product(SHORT, {"seed": [0, 1]})
    swept(plan)
    records = swept(plan, save=str(tmp_path / "heads"), predictions=True)
    first, _ = sorted((tmp_path / "heads").iterdir())
    assert TrainedHead.from_pretrained(first).config["task"] == TASK
    assert json.loads((first / "config.json").read_text())["label"] == "ner"
    rows = pq.read_table(records[0].predictions).to_pylist()
    dev = [row for row in rows if row["split"] == "dev"]
    labelled = [pair for row in dev for pair in zip(row["gold"], row["predicted"], strict=True)]
    assert len(dev) == 30 and len(labelled) > 100


def test_only_the_head_of_the_same_kind_of_run_is_replaced(swept, tmp_path):
    folder, file = tmp_path / "head", tmp_path / "r.jsonl"
    swept([SHORT])
    (other,) = swept([replace(SHORT, seed=1)], save=folder)
    assert saved_key(folder) == other.key
    (wanted,) = swept([SHORT], save=folder)  # recorded, but not saved
    assert saved_key(folder) == wanted.key != other.key
    before = file.read_text("utf-8")
    with pytest.raises(OptionError, match=r"--save .*head of another run .*label ner, head last"):
        swept([replace(SHORT, head="p32")], save=folder)
    assert saved_key(folder) == wanted.key
    assert file.read_text("utf-8") == before  # nothing was trained
    assert swept([SHORT], save=folder) == [wanted]
    (folder / "config.json").write_text("{")
    assert saved_key(folder) is None


def test_a_model_is_not_overwritten_with_a_head(swept, tmp_path):
    config = tmp_path / "config.json"
    for text in ('{"model_type": "bert"}', "{ // mine"):
        config.write_text(text)
        with pytest.raises(OptionError, match=r"config\.json does not belong to a saved head"):
            swept([SHORT], save=tmp_path)
        assert config.read_text() == text
    weights = tmp_path / "alone" / "model.safetensors"
    weights.parent.mkdir()
    for data in (b"precious", save({"head.weight": torch.zeros(2)})):
        weights.write_bytes(data)
        with pytest.raises(
            OptionError, match=r"model\.safetensors does not belong to a saved head"
        ):
            swept([SHORT], save=weights.parent)
        assert weights.read_bytes() == data
    ours = save({"head.weight": torch.zeros(2)}, {"made_by": "probekit"})
    weights.write_bytes(ours)  # a kill left these alone
    swept([SHORT], save=weights.parent)
    assert (weights.parent / "config.json").exists()


def test_what_cannot_be_run_is_refused_before_training(swept, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"--save .*head: .*file is a file"):
        swept([SHORT], save=tmp_path / "file/head")
    refused = {
        r"31 x 2 classes = 62 .* holds 60; .* K here is 30": {"shots": 31},
        "--depth 4: this model has 3 blocks": {"depth": 4},
        "--depth 1 leaves none of --layers 2:4": {"layers": "2:4", "depth": 1},
    }
    for message, options in refused.items():
        with pytest.raises(OptionError, match=message):
            swept([replace(SHORT, **options)])
    with pytest.raises(EntryNotFoundError, match="probekit extract planted conll"):
        swept([SHORT], location=Location(cache=tmp_path / "empty"))
    for split in ("train", "dev"):
        plant(tmp_path, split, layers=(0, 3), signal=(3,))
    with pytest.raises(OptionError, match=r"reads layer 1, but .* holds layers 0, 3"):
        swept([replace(SHORT, head="p32")], location=Location(cache=tmp_path))
    assert not (tmp_path / "r.jsonl").exists()


def test_rows_are_to_fit_the_memory_of_the_device(words, tmp_path, monkeypatch):
    asked = []

    def little(device):
        asked.append(device)
        return 400_000

    monkeypatch.setattr("probekit.train.stream.free_memory", little)
    monkeypatch.setattr("probekit.train.sweeps.run.pick_device", lambda name: "meta")
    job = planned(words, tmp_path)
    assert asked == [torch.device("cpu")], "devices of other machines are not seen from here"
    assert job.device == "auto"
    monkeypatch.setattr("probekit.train.sweeps.run.runs_here", lambda engine: True)
    job = planned(words, tmp_path)
    assert asked[1:] == [torch.device("meta")]
    n_params = (DIM + 1) * len(NAMES)  # a linear decoder on the last layer
    assert job.device == "meta" and job.memory == 200_000 - 5 * 4 * n_params


def test_data_that_changes_while_a_sweep_runs(words, tmp_path):
    """What a run was planned with is what its record says; on other data it does not train."""
    job = planned(words, tmp_path)
    plant_all(tmp_path / "other", seed=5)
    changed = replace(job, location=Location(cache=tmp_path / "other"), sweep="another")
    with pytest.raises(DataError, match=r"conll: the labels, .* changed while the sweep ran"):
        list(changed(print))
    (record,) = job(lambda steps: None)
    assert {record.key} == job.specs.keys()


def planned(location, folder):
    """Return the job that a sweep hands to its engine."""
    jobs = []

    def engine(tasks, **options):
        jobs.extend(tasks)
        yield from ()

    with pytest.raises(KeyError):  # nothing was trained
        sweep([SHORT], out=folder / "runs.jsonl", location=location, engine=engine)
    return jobs[0]
