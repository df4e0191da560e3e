"""Trackers are shown each run once it is recorded, and never cost one."""

import json
import logging
import struct
import sys
from types import ModuleType, SimpleNamespace

import pytest

from probekit.base.installation import install_extra
from probekit.errors import OptionError, StorageError, UnknownNameError
from probekit.features import Location
from probekit.results import load_records
from probekit.results.trackers import (
    Tracking,
    contract,
    options_of_run,
    scores_of,
    tensorboard_runs,
)
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import MODEL, TASK, plant_all
from tests.results.samples import make_record


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    return Location(cache=plant_all(tmp_path_factory.mktemp("tracked")))


def plan(**options):
    base = TrainSpec(model=MODEL, task=TASK, head="p32", epochs=2, evals=2, shots=4)
    return product(base, {"seed": [0, 1], **options})


def events(folder):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard"
    )
    found = reader.EventAccumulator(str(folder))
    found.Reload()
    return found


def scalars(found):
    return {
        name: [(event.step, event.value) for event in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


def test_tensorboard_reads_scores_curve_and_options(location, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    out = tmp_path / "r.jsonl"
    records = sweep(plan(), out=out, location=location, track="tensorboard:curves=true")
    folders = sorted((tmp_path / "r-tensorboard").iterdir())
    keys = [f"p32-seed-{record.seed}-{record.key[:8]}" for record in records]
    assert [folder.name for folder in folders] == keys
    for record, folder in zip(records, folders, strict=True):
        found = events(folder)
        read = scalars(found)
        for name, value in scores_of(record).items():
            assert all(one == pytest.approx(value, rel=1e-6) for _, one in read[name]), name
        assert read["curve/train loss"] == [
            (point[0], pytest.approx(point[1], rel=1e-6)) for point in record.curve
        ]
        # the table of options: tensorboard's own message
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        data = HParamsPluginData.FromString(
            found.PluginTagToContent("hparams")["_hparams_/session_start_info"]
        )
        hparams = data.session_start_info.hparams
        assert hparams["head"].string_value == "p32"
        assert hparams["shots"].number_value == 4
        assert hparams["rate.mixing"].number_value == pytest.approx(0.2)


def wandb_messages(file):
    """The messages of a file of an offline run: LevelDB's log format behind a header of 7 bytes."""
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2", reason="wandb is not installed")
    data, place, parts, block = file.read_bytes(), 7, b"", 32768
    while place + 7 <= len(data):
        if block - place % block < 7:  # a block's last bytes hold no header
            place += block - place % block
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield pb.Record.FromString(parts)
            parts = b""


@pytest.mark.filterwarnings("ignore")  # wandb's own
def test_wandb_writes_runs_offline(location, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("HOME", str(tmp_path))
    (record,) = sweep(
        plan(seed=[0]), out=tmp_path / "r.jsonl", location=location,
        track="wandb:mode=offline:project=probing:curves=true",
    )  # fmt: skip
    wandb.teardown()  # `finish` only asks its service to close the file
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert record.key[:16] in file.name
    said = {"history": [], "summary": {}, "config": {}}
    for message in wandb_messages(file):
        kind = message.WhichOneof("record_type")
        if kind == "run":
            assert (message.run.project, message.run.display_name) == ("probing", "p32, seed 0")
            updates = message.run.config.update
            said["config"] |= {one.key: json.loads(one.value_json) for one in updates}
        if kind == "history":
            items = message.history.item
            named = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in items}
            said["history"].append(named)
        if kind == "summary":
            items = message.summary.update
            named = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in items}
            said["summary"] |= named
    for name, value in scores_of(record).items():
        assert said["summary"][name] == pytest.approx(value), name
    assert {key: said["config"][key] for key in ("head", "shots", "key")} == {
        "head": "p32", "shots": 4, "key": record.key,
    }  # fmt: skip
    assert [one["curve/train loss"] for one in said["history"] if "curve/train loss" in one] == [
        pytest.approx(loss) for _, loss, _ in record.curve
    ]


class FakeRun:
    """What a run of wandb has that the adapter calls."""

    def __init__(self):
        self.points, self.summary, self.ended = [], {}, False

    def log(self, values, step):
        self.points.append((step, values))

    def finish(self):
        self.ended = True


def fake_wandb(monkeypatch, *, login=lambda: True):
    """A module with the three functions of wandb that the adapter calls."""
    runs = []

    def init(**asked):
        runs.append(SimpleNamespace(asked=asked, run=FakeRun()))
        return runs[-1].run

    module = ModuleType("wandb")
    module.init, module.login, module.Settings = init, login, dict
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setattr(contract, "find_spec", lambda name: module)
    return runs


def test_wandb_goes_on_with_a_run_of_the_same_key_online(monkeypatch, tmp_path):
    runs = fake_wandb(monkeypatch)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    record = make_record("p32", 3)
    Tracking.of("wandb:project=x", tmp_path / "r.jsonl").follow(record, "p32, seed 3")
    (one,) = runs
    asked = one.asked
    assert (asked["project"], asked["name"], asked["mode"]) == ("x", "p32, seed 3", "online")
    assert (asked["id"], asked["resume"]) == (record.key[:16], "allow")
    assert asked["config"] == options_of_run(record)
    assert one.run.summary == scores_of(record) and one.run.ended


def test_who_is_not_logged_in_is_told_before_training(monkeypatch, tmp_path, location):
    def refuse():
        raise RuntimeError("no key")

    monkeypatch.delenv("WANDB_MODE", raising=False)
    for login, said in ((refuse, "RuntimeError: no key"), (lambda: False, "you are not logged in")):
        fake_wandb(monkeypatch, login=login)
        out = tmp_path / "r.jsonl"
        with pytest.raises(OptionError, match=rf"--track wandb: {said}.*`wandb login` first"):
            sweep(plan(), out=out, location=location, track="wandb")
        assert not out.exists()


@pytest.mark.parametrize(
    ("track", "error", "said"),
    [
        (
            "tensorbord",
            UnknownNameError,
            "unknown tracker 'tensorbord'. Did you mean 'tensorboard'",
        ),
        ("tensorboard:curve=true", OptionError, "no option 'curve=true'. Write tensorboard:OPTION"),
        ("wandb:mode=of", OptionError, "mode must be online or offline or none; found 'of'"),
    ],
)
def test_what_is_no_tracker(track, error, said, tmp_path):
    with pytest.raises(error) as found:
        Tracking.of(track, tmp_path / "r.jsonl")
    assert said in str(found.value)


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_told_before_training(name, monkeypatch, tmp_path, location):
    monkeypatch.setattr(contract, "find_spec", lambda name: None)
    out = tmp_path / "r.jsonl"
    with pytest.raises(OptionError) as found:
        sweep(plan(), out=out, location=location, track=name)
    assert f"the package {name} is not installed. {install_extra(name)}" in str(found.value)
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_told_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "find_spec", lambda name: name)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot be written.*tensorboard:folder=DIR"):
        Tracking.of(f"tensorboard:folder={tmp_path / 'file' / 'x'}", tmp_path / "r.jsonl")


@pytest.mark.parametrize("call", ["start", "log", "finish"])
def test_a_tracker_that_fails_loses_no_run(call, monkeypatch, tmp_path, location, caplog):
    monkeypatch.setattr(contract, "find_spec", lambda name: name)
    calls = []

    def broken(self, *arguments):
        calls.append(call)
        raise ConnectionError("the server is gone")

    for name in ("start", "log", "finish"):
        monkeypatch.setattr(tensorboard_runs.TensorBoardRuns, name, lambda self, *arguments: None)
    monkeypatch.setattr(tensorboard_runs.TensorBoardRuns, call, broken)
    out = tmp_path / "r.jsonl"
    with caplog.at_level(logging.WARNING, "probekit"):
        records = sweep(plan(), out=out, location=location, track="tensorboard")
    assert len(records) == len(load_records(out)) == 2
    assert calls == [call], "it is asked no more"
    assert "ConnectionError: the server is gone): this run and those after it are" in caplog.text


def test_runs_that_serve_others_are_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "find_spec", lambda name: name)
    tracking = Tracking.of("tensorboard", tmp_path / "r.jsonl")
    for serving in ({"trial": True}, {"left_out": 2}):
        tracking.follow(make_record("p32", 0, **serving), "x")
    assert list((tmp_path / "r-tensorboard").iterdir()) == []
