"""Runs that trained their model, saved as others load it: states, one copy, and what is refused."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from probekit import Location, TrainedHead, fit, open_features, predict, sweep
from probekit.backbone import inspect_backbone, load_backbone
from probekit.base.registry import parse
from probekit.errors import BackboneError, MissingFileError, OptionError, RecordError
from probekit.extraction import extract
from probekit.extraction.maintenance import verify_rows
from probekit.train.saved.folder import read_saved
from probekit.train.saved.published_run import model_card, write_model_card
from probekit.tuning import METHODS
from tests.cli.console import done, refused
from tests.saved_heads import unsealed
from tests.store.synthetic import folder_bytes
from tests.tiny import build
from tests.train.live.trained_runs import FLOAT32, asked, moved
from tests.train.saved.test_prediction import dev_words
from tests.tuning.cases import IDS, check_states, states


def dev_of(folder, runs, cache, **more):
    """Extract the dev split of a corpus by the model of a saved run."""
    at = {"cache": cache, "device": "cpu", "options": FLOAT32, "splits": ["dev"]}
    return extract(str(folder), runs.spec.task, **at | more)[0]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_peft_loads_the_adapter_of_a_cut_model_over_its_base(runs_of):
    runs, method, depth = runs_of("llama"), "lora:rank=2:targets=linear", 2
    peft = pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    folder, result = runs.saved(method, depth)
    plain = AutoModel.from_pretrained(runs.model)
    before = states(plain)
    found = states(peft.PeftModel.from_pretrained(plain, folder / "backbone"))
    assert max((a - b).abs().max() for a, b in zip(before, found, strict=True)) > 1e-3
    tuned = runs.tuned(method, depth)
    # what comes after the cut has no adapter
    check_states(tuned, found[: len(tuned)])
    config = json.loads((folder / "backbone/adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == str(runs.model)
    assert config["task_type"] == "FEATURE_EXTRACTION" and config["r"] == 2
    values = load_file(folder / "backbone/adapter_model.safetensors")
    assert sum(value.numel() for value in values.values()) == result.n_backbone_params


EVERY = [("bert", name) for name, one in METHODS.items() if one.trains and name != "prefix"]
EVERY += [("llama", "prefix")]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_method_is_what_it_was_for_probekit_and_for_other_programs(runs_of, kind, name):
    """PEFT an adapter, transformers a checkpoint; others lie under their names in the model."""
    runs = runs_of(kind)
    method = asked(name, kind)
    folder, result = runs.saved(method)
    labels = TrainedHead.from_pretrained(folder).labels
    said = predict(folder, dev_words(Path(runs.spec.task)), device="cpu")
    assert [label for text in said for label in text] == [
        labels[number] for number in result.predictions["dev"]
    ]
    backbone, packaging = folder / "backbone", parse("method", method, METHODS).packaging
    assert not any(part.startswith("backbone") for part in load_file(folder / "model.safetensors"))
    if packaging.whole:
        model = AutoModel.from_pretrained(backbone)
    else:
        values = load_file(backbone / packaging.file)
        assert sum(value.numel() for value in values.values()) == result.n_backbone_params
        if packaging.name == "values":
            for part, value in values.items():
                assert torch.equal(value, result.state[f"backbone.{part.replace('.', '/')}"])
            assert name != "bitfit" or all(part.endswith("bias") for part in values)
            plain = states(AutoModel.from_pretrained(runs.model))
            assert (plain[3] - runs.tuned(method)[3]).abs().max() > 1e-4
            return
        peft = pytest.importorskip("peft", reason="the optional extra finetune is not installed")
        model = peft.PeftModel.from_pretrained(AutoModel.from_pretrained(runs.model), backbone)
    found = [state[:, -IDS.shape[1] :] for state in states(model)]
    if not METHODS[name].quantizes:  # whose base is another one in 4 bits
        check_states(runs.tuned(method), found)


@pytest.mark.parametrize(
    ("kind", "name", "depth"),
    [("bert", "prompt", None), ("bert", "qlora", None), ("llama", "full", None),
     ("llama", "full", 2)],
)  # fmt: skip
def test_an_entry_of_a_run_has_the_rows_that_its_head_reads(runs_of, kind, name, depth, tmp_path):
    runs = runs_of(kind)
    folder, result = runs.saved(asked(name, kind), depth)
    dev = dev_of(folder, runs, tmp_path)
    assert dev.manifest.model == f"model-{name}"
    trained = TrainedHead.from_pretrained(folder)
    z = dev.arrays["words"].read(dev.examples.rows[dev.examples.valid], [dev.manifest.n_blocks])
    labels = [trained.labels[n] for n in result.predictions["dev"][dev.examples.valid]]
    assert trained.predict(z.float()) == labels
    norm = load_backbone(inspect_backbone(str(folder)), compute_dtype="float32").final_norm
    assert (norm is not None) == (kind == "llama" and depth is None)


def test_transformers_loads_a_cut_model_that_was_trained_in_full(runs_of):
    runs = runs_of("llama")
    folder, _ = runs.saved("full", 2)
    model, report = AutoModel.from_pretrained(folder / "backbone", output_loading_info=True)
    assert not (report["missing_keys"] or report["unexpected_keys"])
    assert model.config.num_hidden_layers == 2 and model.dtype == torch.float32
    assert AutoTokenizer.from_pretrained(folder / "backbone").vocab_size
    tuned = runs.tuned("full", 2)
    tuned[-1] = model.norm(tuned[-1])  # which transformers does after the last block there is
    check_states(tuned, states(model))
    again = inspect_backbone(str(folder / "backbone"))  # a model like any other
    assert again.info.n_blocks == 2 and again.info.base is None


def test_the_same_values_are_the_same_bytes(bert):
    """So that a run that is saved again has the entries that it had."""
    for method, depth in (("adapter:size=4", None), ("full", None), ("full", 2)):
        (file,) = (bert.saved(method, depth)[0] / "backbone").glob("*.safetensors")
        with file.open("rb") as values:  # whose metadata safetensors writes in any order
            begins = values.read(100)[8:]
        assert begins.startswith(b'{"__metadata__":{"format":"pt","made_by":"probekit"},"')


def rows(entry):
    return entry.arrays["words"].read(entry.examples.rows[entry.examples.valid])


def test_its_entry_holds_the_rows_that_the_head_was_trained_on(bert, tmp_path):
    folder, result = bert.saved("lora:rank=2:targets=linear", 2)
    at = {"cache": tmp_path / "cache", "device": "cpu", "options": FLOAT32}
    entries = extract(str(folder), bert.spec.task, **at)
    assert [entry.manifest.model for entry in entries] == ["model-lora"] * 2
    train, dev = entries
    assert list(train.arrays["words"].layers) == [0, 1, 2]
    assert verify_rows(train, 10, device="cpu").passed
    # untouched rows differ, but for the embeddings
    plain = open_features(bert.spec.model, bert.spec.task, location=bert.location)
    before = plain.entries["train"]
    moved = (rows(train) - rows(before)[:, :3]).abs().amax((0, 2))
    assert moved[0] == 0 and moved[1] > 1e-4 and moved[2] > moved[1]
    # what the live model read: its own head says of these rows what it said, and as surely
    location = Location(cache=tmp_path / "cache")
    view = open_features(str(folder), bert.spec.task, location=location).view("dev")
    z = torch.zeros(len(view), 1, 32)  # as of words that the tokenizer deletes
    z[torch.tensor(dev.examples.valid)] = rows(dev)[:, 2:]
    labels, said = TrainedHead.from_pretrained(folder).probabilities(z)
    names = view.labels.names
    assert labels == [names[number] for number in result.predictions["dev"]]
    sure = [one[names[target]] for one, target in zip(said, view.targets, strict=True)]
    assert -np.log(sure).mean() == pytest.approx(result.scores["dev/loss"], rel=1e-5)
    # training over it runs the model, or reads its rows
    spec = replace(bert.spec, model=str(folder), depth=2, rates=())
    live, cached = (fit(replace(spec, method=m), location=location) for m in ("frozen", None))
    assert [p[1] for p in live.curve] == pytest.approx([p[1] for p in cached.curve], rel=1e-4)
    with pytest.raises(OptionError, match="was already fine-tuned by a run"):
        fit(replace(spec, method="full"), location=location)
    # and a head of it labels text with the run's model
    named = replace(spec, model="model-lora")
    sweep([named], out=tmp_path / "r.jsonl", location=location, save=tmp_path / "head")
    assert len(predict(tmp_path / "head", [["Paris", "is"]], device="cpu")[0]) == 2


@pytest.mark.parametrize("method", ["full", "lora:rank=2", None])
def test_a_card_for_the_hub(bert, method, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(bert.saved(method)[0], folder)
    assert done("card", str(folder)).out.strip() == str(folder / "README.md")
    card = ModelCard.load(folder / "README.md")
    saved, _ = read_saved(folder)
    assert f"| dev | {100 * saved.eval_score:.1f} |" in card.text
    assert card.data.license == "unknown" and card.data.base_model is None, "it is a folder"
    assert str(bert.root) not in card.content, "where it lies is nobody's business"
    loading = {"full": "AutoModel.from_pretrained(", None: "on the frozen layers of"}
    assert loading.get(method, "PeftModel.from_pretrained(") in card.text
    assert ("token_type_ids" in card.text) == (method or "").startswith(("prompt", "prefix"))
    assert "fit adam, epochs 2, batch size 16, lr 0.01, select hold-out:" in card.text
    if method is None:
        solved = replace(
            bert.spec, rates=(), fit="auto", epochs=None, evals=None, shots=2, select="dev"
        )
        fit(solved, location=bert.location, save=tmp_path / "solved")
        text = write_model_card(tmp_path / "solved").read_text("utf-8")
        assert "| shots 2, seed 0, fit lbfgs, select dev |" in text
    path = folder / "README.md"
    mine = path.read_text("utf-8").replace("license: unknown", "license: mit") + "Mine.\n"
    path.write_text(mine, "utf-8")
    assert write_model_card(folder) == path and path.read_text("utf-8") == mine
    of_hub = replace(saved, model={**saved.model, "name": "org/base", "source": "hub"})
    (folder / "config.json").write_text(json.dumps(of_hub.to_json()), "utf-8")
    path.unlink()
    data = ModelCard.load(write_model_card(folder)).data
    relation = {"full": "finetune", "lora:rank=2": "adapter", None: None}[method]
    assert (data.base_model, data.get("base_model_relation")) == ("org/base", relation)


def test_runs_are_told_apart(bert, tmp_path):
    one, two = (dev_of(bert.saved("full", d)[0], bert, tmp_path) for d in (2, None))
    assert one.manifest.key != two.manifest.key and one.manifest.model == "model-full"
    for entry, depth in ((one, 2), (two, 3)):  # as cache/README.md says
        folder = bert.saved("full", depth % 3 or None)[0] / "backbone"
        values = (folder / "model.safetensors").read_bytes()
        text = json.dumps([depth, hashlib.sha256(values).hexdigest()], separators=(",", ":"))
        model = entry.manifest.request["model"]
        assert model["tuned"] == hashlib.sha256(text.encode()).hexdigest()
        assert model["method"] == "full" and entry.manifest.model_info["base"] == str(bert.model)
    shutil.copytree(bert.saved("full")[0], tmp_path / "moved")
    for folder in (bert.saved("full")[0], tmp_path / "moved"):
        assert dev_of(folder, bert, tmp_path).path == two.path
    for wrong in ({"random_init": 1}, {"quantize": "8bit"}):
        with pytest.raises(OptionError, match=r"of a saved run .* runs as it was trained"):
            dev_of(tmp_path / "moved", bert, tmp_path, options=replace(FLOAT32, **wrong))


def test_a_base_that_is_gone_or_another(bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for method, name in (("full", "full"), (asked("lora", "bert"), "lora")):
        moved(bert.saved(method)[0], name, "base")
    assert predict("full", [["Paris"]], model=str(bert.model), device="cpu")
    with pytest.raises(MissingFileError, match=r"A whole model is saved there: give full/backbone"):
        dev_of("full", bert, "cache")
    with pytest.raises(MissingFileError, match=r"model 'base'.* base model at the same path"):
        dev_of("lora", bert, "cache")
    build("llama", tmp_path / "base")
    with pytest.raises(BackboneError, match=r"not the one that the saved run lora was made with"):
        dev_of("lora", bert, "cache")


def test_what_is_no_trained_model(bert, tmp_path):
    with pytest.raises(BackboneError, match=r"is a saved head on a frozen model.* \(.*model\)"):
        dev_of(bert.saved(None)[0], bert, tmp_path / "cache")
    run = tmp_path / "run"
    shutil.copytree(bert.saved("full")[0], run)
    values = run / "backbone" / "model.safetensors"
    shutil.copy(bert.saved("full", 2)[0] / "backbone" / "model.safetensors", values)
    with pytest.raises(RecordError, match="has changed since the run wrote it, so its scores"):
        predict(run, [["Paris"]])
    with pytest.raises(RecordError, match="has changed since the run wrote it, so its scores"):
        dev_of(run, bert, tmp_path / "cache")
    config = unsealed(run)
    config.pop("tuned")  # the first runs did not say it
    (run / "config.json").write_text(json.dumps(config), "utf-8")
    shutil.copy(bert.saved("full")[0] / "backbone" / "model.safetensors", values)
    values.write_bytes(values.read_bytes()[:-8])
    with pytest.raises(RecordError, match=r"model\.safetensors: cannot be read .*train it again"):
        predict(run, [["Paris"]], device="cpu")
    shutil.copy(bert.saved("full", 2)[0] / "model.safetensors", values)  # a head's
    with pytest.raises(RecordError, match=r"Model has no place for decoder\..*train it again"):
        predict(run, [["Paris"]], device="cpu")
    values.unlink()
    with pytest.raises(MissingFileError, match="it held the weights that the run trained"):
        predict(run, [["Paris"]], device="cpu")


DAMAGES = [
    *(("options", wrong) for wrong in ({}, None, {"method": None}, {"method": 3})),
    *(("model", wrong) for wrong in ({}, None, "bert", {"name": "bert", "identity": {}})),
    *(("layers", wrong) for wrong in ([], ["a"], [-1], None)),
]


def test_what_cannot_be_asked_of_a_run(bert, tmp_path):
    pytest.importorskip("accelerate", reason="the optional extra device-map is not installed")
    folder = tmp_path / "run"
    shutil.copytree(bert.saved("full")[0], folder)
    at = {"cache": tmp_path / "cache", "device": "auto"}
    with pytest.raises(OptionError, match=r"the model of a saved run .* runs on one device"):
        dev_of(folder, bert, device_map="auto", **at)
    config = unsealed(folder)
    for name, wrong in DAMAGES:
        (folder / "config.json").write_text(json.dumps({**config, name: wrong}), "utf-8")
        with pytest.raises(
            BackboneError, match=rf"config\.json: the facts about its model .* \({name}\)\. Train"
        ):
            dev_of(folder, bert, **at)


def test_what_others_keep_beside_a_head_stays(bert, tmp_path):
    spec, folder = replace(bert.spec, method="full", epochs=1), tmp_path / "run"
    shutil.copytree(bert.model, folder / "backbone")
    with pytest.raises(OptionError, match=r"backbone, .*holds something else"):
        fit(spec, location=bert.location, save=folder)
    frozen = replace(spec, method=None, rates=())
    fit(frozen, location=bert.location, save=folder)
    assert (folder / "backbone" / "config.json").is_file()
    shutil.rmtree(folder / "backbone")
    fit(spec, location=bert.location, save=folder)
    fit(replace(spec, seed=1), location=bert.location, save=folder)
    for name in ("backbone.old", "backbone.partial", "model.safetensors.partial"):  # somebody's
        (folder / name).mkdir()
        (folder / name / "notes.txt").touch()
    left = folder / f".{'0' * 32}.probekit"  # of a run that was killed
    shutil.copytree(folder / "backbone", left / "backbone")
    os.utime(left, (0, 0))
    fit(frozen, location=bert.location, save=folder)
    assert not (folder / "backbone").exists(), "what another run trained is no part of this one"
    assert len(list(folder.glob("*.*/notes.txt"))) == 3 and not left.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "."])
def test_what_others_put_in_place_of_a_trained_model_is_refused_and_stays(bert, tmp_path, name):
    folder = shutil.copytree(bert.saved("full")[0], tmp_path / "run")
    if name == ".":  # in place of the folder itself
        shutil.rmtree(folder / "backbone")
    (folder / "backbone" / name).write_text("mine")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(OptionError, match=r"backbone, .*holds something else"):
        fit(replace(bert.spec, method="full"), location=bert.location, save=folder)
    assert all(path.read_bytes() == content for path, content in before.items())


def test_a_card_shows_what_strangers_wrote_as_text(bert):
    saved, _ = read_saved(bert.saved("lora:rank=2", None)[0])
    harm = '`"); harm()\n\n## Harm <img>\n```'
    options = {**saved.options, "method": harm, "select": harm, "seed": harm}
    model = {**saved.model, "name": harm, "source": "hub"}
    shown = model_card(replace(saved, model=model, options=options)).partition("begin -->")[2]
    assert "\n## Harm" not in shown and '("BASE_MODEL")' in shown
    (what,) = (line for line in shown.split("\n") if line.startswith("A `probekit` head, and "))
    assert what.count("`") == 6, "none of a stranger's ends the code"


CUT = [("bert", "bitfit", 2), ("llama", "lora:rank=2:targets=linear", 2)]


@pytest.mark.parametrize(
    ("kind", "method", "depth"),
    [*(("bert", name, None) for name in METHODS if name not in ("bitfit", "prefix")), *CUT],
)
def test_every_method_merges_or_says_why_not(runs_of, kind, method, depth, tmp_path):
    runs, name, into = runs_of(kind), method.partition(":")[0], tmp_path / "of" / "whole"
    typed = asked(name, kind)
    method = method if depth else typed
    apart = METHODS[name].stays_apart
    if METHODS[name].trains and name != "full" and apart is None:
        check_merged(runs, method, depth, into)
        return
    said = refused("merge", str(runs.saved(method)[0]), str(into))
    ends = {"frozen": "is a saved head on a frozen model", "full": "has a whole model already"}
    assert ends.get(name, f"--method {name}: {apart}") in said and not into.exists()


def check_merged(runs, method, depth, into):
    """Check that a merged run is a model of its base's form with the states of the run."""
    folder = runs.saved(method, depth)[0]
    assert done("merge", str(folder), str(into)).out.strip() == str(into)
    model, report = AutoModel.from_pretrained(into, output_loading_info=True)
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert not (report["missing_keys"] - pooler or report["unexpected_keys"])
    plain = AutoModel.from_pretrained(runs.model)
    named = dict(plain.named_parameters())
    own = {name: value for name, value in model.named_parameters() if name not in pooler}
    assert set(own) <= set(named) and model.config.num_hidden_layers == (depth or 3)
    differ = sum(int((own[name] != named[name]).sum()) for name in own)
    if method.startswith("diff-prune"):
        assert 0 < differ <= 0.1 * sum(value.numel() for value in own.values())
    tuned, found = runs.tuned(method, depth), list(states(model))
    if depth and runs.kind == "llama":
        tuned[-1] = model.norm(tuned[-1])  # which transformers does after the last block there is
    check_states(tuned, found)
    assert (found[1] - states(plain)[1]).abs().max() > 1e-5
    assert AutoTokenizer.from_pretrained(into).vocab_size


def test_a_base_that_has_moved(bert, tmp_path):
    kept = bert.saved("bitfit", 2)[0]
    run, there = moved(kept, tmp_path / "run", tmp_path / "gone"), tmp_path / "there"
    for command in (("merge", str(run), str(there)), ("extract", str(run), "conll")):
        assert "--model" in refused(*command)
    done("merge", str(run), str(there), "--model", str(bert.model))
    done("merge", str(kept), str(tmp_path / "here"))
    assert folder_bytes(there) == folder_bytes(tmp_path / "here")


def test_what_cannot_be_merged(bert, tmp_path):
    into, run = tmp_path / "whole", bert.saved("bitfit", 2)[0]
    assert "there is no saved run" in refused("merge", str(tmp_path / "nothing"), str(into))
    assert not into.exists()
    (into / "mine").mkdir(parents=True)
    for taken in (into, run / "backbone" / "whole"):
        assert "already exists. Give a new folder." in refused("merge", str(run), str(taken))
    said = refused("merge", str(run), "x" * 300)
    assert "File name too long" in said
