"""Extraction without files: the bytes of the saved model, and entries that behave as any other."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import probekit
from probekit.backbone.forward import quiet_transformers
from probekit.errors import (
    BackboneError,
    EntryNotFoundError,
    MissingFileError,
    OptionError,
    StateRangeError,
)
from probekit.extraction import ExtractOptions, extract
from probekit.extraction.maintenance import check_chunks, describe, list_cache, verify_rows
from probekit.features import Location, open_features
from probekit.store.layout import MANIFEST
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests import tiny
from tests.cli.console import done, refused
from tests.extraction.extracted import PLAIN, all_rows, run
from tests.extraction.imports.exporting import sentences

MODELS = Path(os.environ.get("PROBEKIT_TEST_MODELS", "no-folder-was-named"))


def load(folder, auto=AutoModel, **options):
    with quiet_transformers():
        model = auto.from_pretrained(folder, **options).eval()
        return {"model": model, "tokenizer": AutoTokenizer.from_pretrained(folder)}


@pytest.fixture
def given(bert):
    return load(bert)


@pytest.fixture
def mine(given, tmp_path):
    """Return what extracts a model and examples in memory to a cache of its own."""

    def extracted(examples=None, **more):
        examples = {"train": sentences(), "dev": sentences(4)} if examples is None else examples
        wanted = {"name": "mine", "options": PLAIN, "cache": tmp_path / "cache", **given, **more}
        return extract(examples=examples, **wanted)

    return extracted


def stored(entry):
    """Return the bytes of an entry's files but the manifest, of its configuration the options."""
    files = [file for file in entry.path.rglob("*") if file.is_file() and file.name != MANIFEST]
    found = {str(file.relative_to(entry.path)): file.read_bytes() for file in files}
    config = json.loads(found.pop("backbone/config.json"))
    return found | {"config": {name: v for name, v in config.items() if name != "_name_or_path"}}


@pytest.mark.usefixtures("small_units")
def test_the_bytes_are_those_of_the_saved_model(given, corpus, tmp_path):
    given["model"].save_pretrained(tmp_path / "saved")
    given["tokenizer"].save_pretrained(tmp_path / "saved")
    options = {"dtype": "auto", "compute_dtype": "auto"}
    files = run(tmp_path / "saved", corpus, tmp_path / "a", **options)
    (memory,) = extract(
        **given, task=str(corpus), name="mine", kind="tagging", label="2", splits=["train"],
        options=ExtractOptions(**options), cache=tmp_path / "b",
    )  # fmt: skip
    assert stored(memory) == stored(files)
    one, two = memory.manifest, files.manifest
    assert one.key != two.key and one.request["text"] == two.request["text"]
    assert one.statistics == two.statistics and one.arrays == two.arrays


def test_a_second_call_computes_nothing_and_other_tensors_are_another_model(given, mine):
    first = mine()
    assert [entry.path for entry in mine()] == [entry.path for entry in first]
    before = first[0].path.stat().st_mtime_ns
    mine()
    assert first[0].path.stat().st_mtime_ns == before
    with torch.no_grad():
        given["model"].encoder.layer[0].output.dense.bias += 1
    with pytest.raises(
        OptionError, match=r"2 entries in .* of a model with other weights.*cache rm mine"
    ):
        mine()
    second = mine(name="step-2")
    assert second[0].manifest.key != first[0].manifest.key
    with pytest.raises(
        OptionError, match=r"--name third: the cache has this entry already .*, at .*step-2"
    ):
        mine(name="third")


def test_both_halves_stand_alone(bert, given, tmp_path):
    text = {"examples": sentences(), "options": PLAIN, "cache": tmp_path, "device": "cpu"}
    (of_files,) = extract(bert, **text)
    (of_memory,) = extract(**given, **text, name="mine")
    assert of_files.manifest.model == Path(bert).name and of_memory.manifest.model == "mine"
    assert of_files.manifest.task == of_memory.manifest.task
    assert stored(of_files) == stored(of_memory)
    named = extract(
        **given, task="demo-ner", splits="dev", name="mine", options=ExtractOptions(limit=2),
        cache=tmp_path,
    )  # fmt: skip
    assert open_features(named, fit_on="dev").metric == "span-f1"


def test_entries_open_as_features(mine, tmp_path):
    entries = mine()
    features = open_features(entries)
    X, y, _ = features.numpy("train", layer=2)
    tags = [tag for _, own in sentences() for tag in own]
    assert X.shape == (len(tags), 32) and list(y) == tags
    assert np.array_equal(X, all_rows(entries[0])[:, 2].numpy())
    frame = features.to_frame("dev")
    assert list(frame["word"]) == [word for own, _ in sentences(4) for word in own]
    assert open_features(entries[0]).entries.keys() == {"train"}
    assert open_features(entries, fit_on="dev").entries["train"] == entries[1]
    by_name = open_features("mine", "in-memory", location=Location(cache=tmp_path / "cache"))
    assert by_name.entries["dev"].path == entries[1].path


def test_splits_and_names_that_come_later_lie_together(mine, tmp_path):
    mine({"dev": sentences(4)})
    entries = mine()
    assert len({entry.path.parent for entry in entries}) == 1
    assert set(open_features(entries).entries) == {"train", "dev"}
    mine(task="other")
    by_name = open_features("mine", "other", location=Location(cache=tmp_path / "cache"))
    assert set(by_name.entries) == {"train", "dev"}
    relabelled = mine([(words, tags[::-1]) for words, tags in sentences()])
    assert relabelled[0].path == entries[0].path
    tags = [tag for _, own in sentences() for tag in own[::-1]]
    assert list(open_features(relabelled).numpy("train", 0).y) == tags


def test_entries_that_do_not_belong_together_are_refused(mine, tmp_path):
    train, dev = mine()
    (other,) = mine([(["Oh"], ["O"])])
    for entries, error, says in (
        ([dev, other], OptionError, "different models or tasks"),
        ([train, train], OptionError, "are of the same split"),
        ([dev], EntryNotFoundError, "no entry of split 'train' was given, only of dev"),
        ([], OptionError, "found neither"),
        ("mine", OptionError, "give a task"),
    ):
        with pytest.raises(error, match=says):
            open_features(entries)
    with pytest.raises(OptionError, match="leave 'conll' out"):
        open_features([train], "conll")
    with pytest.raises(OptionError, match=r"several texts are called in-memory: in-memory-\w+, in"):
        open_features("mine", "in-memory", location=Location(cache=tmp_path / "cache"))


def test_texts_keep_the_parts_that_decoders_need(tmp_path):
    given = load(tiny.build("gpt2", tmp_path / "gpt2"), AutoModelForCausalLM)
    texts = ["She walked along the river", "the train leaves at 10:45"]
    where = {"name": "gpt", "cache": tmp_path / "cache"}
    (entry,) = extract(**given, examples=texts, kind="language-modelling", **where)
    head = probekit.store.Entry.open(entry.path).backbone / "output_head.safetensors"
    assert head.is_file() and (entry.backbone / "final_norm.safetensors").is_file()
    (plain,) = extract(**given, examples=[("a river", "x"), ("a train", "y")], **where)
    assert set(plain.arrays) == {"cls", "mean", "last"}
    assert open_features(plain).numpy("train", 1).X.shape == (2, 32)


def test_maintenance_takes_it_as_any_other(mine, given, tmp_path):
    train, _ = mine()
    assert check_chunks(train.path) > 0
    assert describe(train.path)["origin"] == "examples in memory"
    assert verify_rows(train, 5, **given).passed
    with pytest.raises(MissingFileError, match=r"'mine' was in memory when .*--model FOLDER"):
        verify_rows(train, 5)
    cache = ["--cache", str(tmp_path / "cache")]
    done("cache", "verify", "mine", "in-memory", *cache)
    done("cache", "rm", "mine", "in-memory", "dev", "--yes", *cache)
    assert [row["split"] for row in list_cache(tmp_path / "cache")] == ["train"]
    said = refused("train", "mine", "in-memory", "--fit-on", "dev", *cache)
    assert "probekit.extract(model=MODEL, tokenizer=TOKENIZER, name='mine', examples=" in said


def test_heads_are_trained_by_name_and_label_with_the_model_given_again(mine, given, tmp_path):
    entries = mine()
    cache, out = tmp_path / "cache", tmp_path / "runs.jsonl"
    head, name = tmp_path / "head", entries[0].manifest.task
    how = {"out": out, "location": Location(cache=cache), "save": head, "device": "cpu"}
    spec = TrainSpec(model="mine", task="in-memory", head="last", epochs=1)
    (record,) = sweep([spec], **how)
    assert (record.model, record.task) == ("mine", name)
    assert sweep([dataclasses.replace(spec, task=name)], **how) == [record]
    text = [["Maria", "left", "Paris"]]
    labels = probekit.predict(head, text, **given)
    assert len(labels[0]) == 3
    with pytest.raises(MissingFileError, match=r"when the head was made.*model=MODEL, tokenizer="):
        probekit.predict(head, text)
    saved = tmp_path / "saved"
    given["model"].save_pretrained(saved)
    given["tokenizer"].save_pretrained(saved)
    assert probekit.predict(head, text, model=str(saved)) == labels
    (tmp_path / "text.txt").write_text("Maria left Paris\n", "utf-8")
    said = done("predict", head, tmp_path / "text.txt", "--model", saved).out.split()
    assert said[1::2] == labels[0]
    with torch.no_grad():
        given["model"].embeddings.LayerNorm.weight *= 2
    with pytest.raises(BackboneError, match=r"not the one that the head was made with.*weights"):
        probekit.predict(head, text, **given)


def test_a_model_in_memory_is_not_proven_to_be_one_of_files(bert, given, corpus, tmp_path):
    entry = run(bert, corpus, tmp_path)
    with pytest.raises(
        BackboneError, match=r"identified by its tensors, a model on disk by its files"
    ):
        verify_rows(entry, 3, **given)
    with pytest.raises(OptionError, match=r"tokenizer= is for a model in memory"):
        verify_rows(entry, 3, model=bert, tokenizer=given["tokenizer"])


def test_a_random_version_has_a_name_of_its_own_and_the_key_of_the_files_(bert, mine, tmp_path):
    drawn = dataclasses.replace(PLAIN, random_init=0)
    mine()
    with pytest.raises(OptionError, match="of a model with other weights"):
        mine(options=drawn)
    train, _ = mine(options=drawn, name="mine-random0")
    (files,) = extract(bert, examples=sentences(), options=drawn, cache=tmp_path / "files")
    assert train.manifest.key == files.manifest.key


def test_calls_that_make_no_sense(mine, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given["model"].save_pretrained("here")
    given["tokenizer"].save_pretrained("here")
    for more, message in (
        ({"name": None}, "has no name of its own.*name='mine'"),
        ({"name": "a b"}, r"--name 'a b' cannot name .*such as 'a-b'"),
        ({"name": "../up"}, "cannot name a folder"),
        ({"name": "mine.gguf"}, "cannot name a folder"),
        ({"name": "here"}, "--name here: that is the path of a model"),
        ({"task": "a b"}, "task='a b' cannot name .*such as 'a-b'"),
        ({"task": "conll"}, "conll is one of probekit's tasks"),
        ({"task": "."}, "task='.' is also a file or folder here"),
        ({"data": "folder"}, "is the data already"),
        ({"splits": ()}, "--split names no split"),
        ({"revision": "main"}, "--revision main is for a model of the Hub"),
    ):
        with pytest.raises(OptionError, match=message):
            mine(**more)


def test_models_and_texts_that_are_not_there(bert, given, tmp_path):
    with pytest.raises(OptionError, match="give a task, or examples="):
        extract(bert, cache=tmp_path)
    with pytest.raises(OptionError, match="tokenizer= is for a model in memory"):
        extract(bert, tokenizer=given["tokenizer"], examples=sentences(), cache=tmp_path)
    with pytest.raises(BackboneError, match=r"expected a transformers model.* found NoneType"):
        extract(None, examples=sentences(), name="mine", cache=tmp_path)
    given["model"].train()
    with pytest.raises(BackboneError, match="training mode"):
        extract(**given, examples=sentences(), name="mine", cache=tmp_path)
    assert not list(tmp_path.iterdir()) and given["model"].training


def test_what_is_to_be_rerun_is_said_in_python(mine, given, tmp_path):
    with torch.no_grad():
        given["model"].encoder.layer[1].output.LayerNorm.bias += 1e6
    options = dataclasses.replace(PLAIN, dtype="float16")
    with pytest.raises(StateRangeError) as refused:
        mine(options=options)
    said = str(refused.value).partition("Rerun: ")[2]
    assert said.startswith(
        "probekit.extract(model=MODEL, tokenizer=TOKENIZER, task='in-memory', ex"
    )
    call = {"MODEL": given["model"], "TOKENIZER": given["tokenizer"], "EXAMPLES": sentences()}
    (entry,) = eval(said, {"probekit": probekit, **call})
    assert entry.manifest.dtype == "bfloat16" and entry.path.is_relative_to(tmp_path / "cache")


@pytest.mark.gpu
def test_a_model_on_an_accelerator_stays_there_and_runs_there(given, mine):
    given["model"].to("cuda")
    train, _ = mine()
    assert train.manifest.extra["computed"][0]["device"].startswith("cuda")
    assert given["model"].device.type == "cuda" and verify_rows(train, 5, **given).passed
