"""Saved heads, read again: their scores, what is damaged, and what they may replace."""

import json
import shutil
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from probekit.errors import MissingFileError, OptionError, RecordError, StorageError
from probekit.features import Location, open_features
from probekit.metrics import METRICS
from probekit.train.saved.directions import export
from probekit.train.saved.folder import check_replaceable
from probekit.train.saved.head import TrainedHead
from probekit.train.scoring import gold_of
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec, product
from tests.planted import MODEL, TASK, plant_all
from tests.saved_heads import unsealed

HEADS = ("last", "p32", "dwatt")
WAYS = ("layernorm", "standardize", "final-norm")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    root = tmp_path_factory.mktemp("saved")
    location = Location(cache=plant_all(root / "cache", final_norm=True))
    base = TrainSpec(model=MODEL, task=TASK, head="last", epochs=2, evals=1, lr=2e-2)
    plan = [
        *product(base, {"head": HEADS}),
        *product(replace(base, head="p32"), {"normalize": WAYS}),
    ]
    sweep(plan, out=root / "r.jsonl", location=location, save=root / "heads")
    return root, open_features(MODEL, TASK, None, location)


def test_a_loaded_head_scores_as_it_did_in_training(saved):
    root, splits = saved
    view = splits.view("test")
    gold = [view.all_names[number] for number in view.targets]
    folders = list((root / "heads").iterdir())
    assert len(folders) == len(HEADS) + len(WAYS)
    metric = METRICS[splits.metric]
    scorer = metric(gold_of(view, metric))
    for folder in folders:
        head = TrainedHead.from_pretrained(folder)
        rows = view.array.read(torch.from_numpy(view.rows), head.layers)
        found = head.predict(rows, torch.from_numpy(view.offsets))
        assert len(found) == len(gold)
        numbers = view.labels.encode(found)[0]
        assert scorer.score(numbers)[splits.metric] == head.config["test_score"], folder.name
    p32 = TrainedHead.from_pretrained(next(path for path in folders if path.name[:3] == "p32"))
    with pytest.raises(OptionError, match="reads 3 layers of width 16; found 2 layers"):
        p32.predict(torch.zeros(4, 2, 16))
    assert p32.predict(torch.zeros(0, 3, 16)) == []


@pytest.fixture
def copy(saved, tmp_path):
    root, _ = saved
    return shutil.copytree(next((root / "heads").iterdir()), tmp_path / "head")


def test_missing_and_damaged_files(copy, tmp_path):
    with pytest.raises(MissingFileError, match="no saved head here"):
        TrainedHead.from_pretrained(tmp_path / "nothing")
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(RecordError, match="the saved head is damaged"):
        TrainedHead.from_pretrained(copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(MissingFileError, match=r"model.safetensors is missing"):
        TrainedHead.from_pretrained(copy)


@pytest.mark.parametrize("load", [TrainedHead.from_pretrained, export])
def test_a_damaged_config_is_told_before_memory_is_taken_for_what_it_says(copy, load):
    config = unsealed(copy)
    mlp, features = {"name": "mlp", "hidden": 2**20}, config["features"]
    without = {name: value for name, value in features.items() if name != "dim"}
    damages = [
        ({"decoder": config["decoder"] | mlp}, "decoder"),
        ({"labels": [str(n) for n in range(99)]}, "decoder"),
        ({"features": features | {"dim": 2**19}}, "has shape"),
        ({"features": features | {"dim": 2**40}}, "has no such features"),
        ({"features": without}, r"\(config.json lacks 'dim'\)"),
        ({"features": 3}, ""),
        ({"layers": list(range(2**12 - 1))}, "has shape"),
        ({"layers": [2**40]}, "has no such layers"),
    ]
    texts = [(json.dumps(config | wrong), f"is damaged .*{said}") for wrong, said in damages]
    del config["labels"]
    texts.append((json.dumps(config), r"is damaged \(config.json lacks 'labels'\)"))
    newer = json.dumps(config | {"format_version": 99})
    for text, said in (*texts, (newer, "reads 1; it was written by probekit 0"), ("{", "not JSON")):
        (copy / "config.json").write_text(text)
        with pytest.raises(RecordError, match=said):
            load(copy)


def test_the_first_saved_heads_are_read(copy):
    """They say neither what they predict nor which rows they read: words, labelled."""
    config = unsealed(copy)
    for name in ("kind", "text_kind", "array"):
        del config["features"][name]
    del config["init"]
    (copy / "config.json").write_text(json.dumps(config))
    head = TrainedHead.from_pretrained(copy)
    assert (head.kind, head.text_kind, head.array) == ("tagging", "tagging", "words")
    assert head.saved.init is None and head.config["labels"] == tuple(config["labels"])


def test_a_head_that_diverged_is_refused(copy):
    state = load_file(copy / "model.safetensors")
    state["head.weight" if "head.weight" in state else next(iter(state))].fill_(torch.nan)
    save_file(state, copy / "model.safetensors")
    unsealed(copy)
    with pytest.raises(RecordError, match=r"is not finite, so its run diverged\. Train it again"):
        TrainedHead.from_pretrained(copy)


def test_several_saved_heads_are_listed(saved, tmp_path):
    root, _ = saved
    with pytest.raises(MissingFileError, match="no saved head here, but in its folders") as caught:
        TrainedHead.from_pretrained(root / "heads")
    assert all(path.name in str(caught.value) for path in (root / "heads").iterdir())
    for number in range(22):
        (tmp_path / f"h{number:02}").mkdir()
        (tmp_path / f"h{number:02}" / "config.json").write_text('{"format_version": 1}')
    for content in ('{"model_type": "bert"}', "[]"):
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / "config.json").write_text(content)
        with pytest.raises(
            MissingFileError,
            match=r"no saved head here \(its config.json does not belong to a saved head",
        ):
            TrainedHead.from_pretrained(tmp_path / "model")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text("{")
    with pytest.raises(MissingFileError, match=r"folders: h00, .*h19 and 2 more\. Give one"):
        TrainedHead.from_pretrained(tmp_path)


def test_a_full_disk_keeps_the_head_that_was_there(tmp_path, monkeypatch):
    location = Location(cache=plant_all(tmp_path / "cache", final_norm=True))
    spec = TrainSpec(model=MODEL, task=TASK, head="last", epochs=1)
    sweep([spec], out=tmp_path / "r.jsonl", location=location, save=tmp_path / "heads")
    before = {path: path.read_bytes() for path in (tmp_path / "heads").rglob("*.*")}

    def full(state, path, metadata):
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("probekit.train.saved.folder.save_file", full)
    with pytest.raises(StorageError, match=r"cannot save the head.*No space left"):
        sweep([spec], out=tmp_path / "again.jsonl", location=location, save=tmp_path / "heads")
    assert before and before == {path: path.read_bytes() for path in before}


@pytest.mark.parametrize(
    ("task", "label", "head", "key", "refused"),
    [
        (TASK, "ner", "p32", "other", False),
        (TASK, "pos", "p32", "other", True),
        (TASK, "ner", "last", "other", True),
        ("wnut17", "ner", "p32", "other", True),
        ("wnut17", "pos", "last", "same", False),
    ],
)
def test_what_may_be_replaced(tmp_path, task, label, head, key, refused):
    config = {"format_version": 1, "task": TASK, "label": "ner", "head": {"name": "p32"}}
    (tmp_path / "config.json").write_text(json.dumps(config | {"key": "same"}))
    check = partial(check_replaceable, key=key, task=task, label=label, head=head)
    check(tmp_path / "new")
    if refused:
        said = rf"\(task {TASK}, label ner, head p32; this one: {task}"
        with pytest.raises(OptionError, match=said):
            check(tmp_path)
        return
    check(tmp_path)
    config |= {"task": f"{tmp_path}/"}  # one folder under two names
    (tmp_path / "config.json").write_text(json.dumps(config))
    check_replaceable(tmp_path, key="k", task=str(tmp_path), label="ner", head="p32")


def test_weights_that_are_no_heads_are_not_replaced(tmp_path):
    config = {"format_version": 1, "task": TASK, "label": "ner", "head": {"name": "p32"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    check = partial(check_replaceable, key="k", task=TASK, label="ner", head="p32")
    file = tmp_path / "model.safetensors"
    for tensors in ("head.weight", "decoder.bias"):
        save_file({tensors: torch.zeros(1)}, file)
        check(tmp_path)
    file.write_bytes(file.read_bytes()[:9])
    check(tmp_path)
    save_file({"embeddings.weight": torch.zeros(1)}, file)
    with pytest.raises(
        OptionError, match=r"its model\.safetensors does not belong to a saved head"
    ):
        check(tmp_path)


def test_a_config_that_cannot_be_read_is_not_replaced(tmp_path):
    save_file(
        {"head.weight": torch.zeros(1)}, tmp_path / "model.safetensors", {"made_by": "probekit"}
    )
    (tmp_path / "config.json").mkdir()
    with pytest.raises(IsADirectoryError):
        check_replaceable(tmp_path, key="k", task=TASK, label="ner", head="p32")
    with pytest.raises(MissingFileError, match="no saved head here"):
        TrainedHead.from_pretrained(tmp_path.parent)
