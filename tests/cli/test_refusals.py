"""What cannot be done is said in one line that says what to type, and nothing is left behind."""

import re
import shutil

import pytest
import torch
from transformers import AutoModel

from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused, run

CACHED = "train BERT DATA --cache CACHE"
TRAIN = ("--head", "last", "--epochs", "1")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "extract BERT conl",
            r"unknown task 'conl'\. Did you mean 'conll'\? Choose from: atis, .*",
        ),
        ("extract ./no/model DATA", r"model './no/model': no such file or folder\. Check .*"),
        ("extract a/b/c DATA", r"model 'a/b/c': no such file or folder\. Check the path, or .*"),
        ("extract demo/minilm-l6 DATA", r".*no such folder here\. `probekit demo` makes it.*"),
        ("extract BERT DATA --kind tags", r"unknown kind 'tags'.* Choose from: .*tagging.*"),
        ("extract BERT DATA --format h5", r"unknown format 'h5'\. Did you mean 'hdf5'\? .*"),
        ("extract BERT DATA --keep ,", r"--keep names no array\. Choose from: words, .*"),
        ("extract BERT DATA --shard 3/2", r"--shard 3/2: shards of 2 are 1/2 to 2/2\."),
        ("extract BERT DATA --shard 1/2 --overwrite", r".*`probekit cache rm`.*"),
        ("extract BERT DATA --engine cloud", r"unknown engine 'cloud'\. Choose from: local, ray\."),
        ("extract BERT DATA --cache ftp://host/x", r"ftp://host/x is a URL, but a cache is a .*"),
        ("train BERT DATA --cache ftp://host/x", r"ftp://host/x is a URL, but a cache is a .*"),
        ("train m conll", r"no entry of m conll in cache\. Type: probekit extract m conll"),
        ("sweep m conll --cache c", r".* Type: probekit extract m conll --cache c"),
        (
            "depth m conll --method full",
            r"no entry of m conll in cache\. Type: probekit extract .*",
        ),
        (
            "train no/entry",
            r"'no/entry' is not the path of a cache entry\. Give MODEL and TASK, .*",
        ),
        ("extract BERT DATA --keep word", r"unknown --keep 'word'\. Did you mean 'words'\? .*"),
        ("extract BERT DATA --layers top", r"layers 'top': cannot read 'top'\. Write 'all'.*"),
        ("extract BERT DATA --max-length 65", r"--max-length 65: .*bert reads at most 64 sub.*"),
        (
            "extract BERT DATA --engine ray:gpus=1",
            r"engine 'ray' has no option 'gpus=1'\. Write .*",
        ),
        (f"{CACHED} --decoder pooler", r"decoder 'pooler' does not fit tagging labels; choose .*"),
        (f"{CACHED} --fit lbfgs", r"--fit lbfgs: the head dwatt trains maps .* give --fit adam.*"),
        (f"{CACHED} --pooling cls", r"--pooling cls chooses a row for a whole text; .*"),
        (f"{CACHED} --head last --fit ridge", r"--fit ridge: the decoder linear predicts no .*"),
        (f"{CACHED} --head last --select cv:41", r"--select cv:41: no class has 41 examples .*"),
        (f"{CACHED} --select hold-out:1", r"--select 'hold-out:1': choose .*"),
        (f"{CACHED} --head ,", r"--head names no value\."),
        (f"{CACHED} --shots many", r"--shots: 'many' is not a whole number\."),
        (f"{CACHED} --lr fast", r"--lr: 'fast' is not a number\."),
        (
            "tasks --data x",
            r"--data lists the treebanks of a folder: probekit tasks ud --data DIR\.",
        ),
    ],
)
def test_nothing_is_done(line, message, bert, corpus, entries, here, monkeypatch):
    monkeypatch.setattr("probekit.backbone.hub.list_files", None)  # asking the Hub would fail
    stands_for = {"BERT": bert, "DATA": corpus, "CACHE": entries}
    words = [stands_for.get(word, word) for word in line.split()]
    found = refused(*words)
    assert re.fullmatch(message, found), found
    assert list(here.iterdir()) == []


def test_an_empty_file(bert, here):
    (here / "a.conll").touch()
    message = refused("extract", bert, "a.conll")
    assert message == "a.conll: split 'train' of a.conll is empty."


def test_no_dev_split(bert, corpus, here):
    done("extract", bert, corpus, *FLOAT32, "--split", "train")
    common = ("train", bert, corpus, *TRAIN)
    assert refused(*common).endswith(
        "the dev split is not in the cache. Extract it (--split dev), or hold out a part of "
        "train: --hold-out 0.1."
    )
    (row,) = done(*common, "--hold-out", "0.25", "--json").rows
    assert row["protocol"] == "full, hold-out 0.25"


def test_a_label_in_dev_that_train_does_not_have_is_counted(bert, here):
    (here / "mine").mkdir()
    (here / "mine" / "train.conll").write_text("Maria B-PER\nleft O\n\nthe O\nriver O\n")
    (here / "mine" / "dev.conll").write_text("Paris B-LOC\nleft O\n\nMaria B-PER\nLake B-LOC\n")
    done("extract", bert, "mine", *FLOAT32)
    warning = done("train", bert, "mine", *TRAIN).err.splitlines()[0]
    told = "rows with a label that train does not have: 2 (B-LOC); each counts as an error."
    assert warning.startswith("mine-") and warning.endswith(told)


def test_states_that_overflow_float16_and_the_command_that_stores_them(bert, corpus, here):
    model = AutoModel.from_pretrained(bert)
    with torch.no_grad():
        model.embeddings.LayerNorm.weight.mul_(1e5)
    model.save_pretrained(shutil.copytree(bert, here / "wide"))
    outcome = run("extract", "wide", corpus, *FLOAT32, "--cache", "c", "--dtype", "float16")
    message = outcome.err.splitlines()[-1].removeprefix("error: ")
    assert re.match(r"layer 0 of examples train-0 to train-39 has values up to [\d,]+;", message)
    assert not list(here.glob("c/**/*.partial"))
    rows = done(*message.partition(" Rerun: probekit ")[2].split(), "--json").rows
    assert [row["dtype"] for row in rows] == ["bfloat16", "bfloat16"]


def test_a_flipped_byte_is_found_and_named(bert, corpus, cache):
    chunk = entry_of(cache, "train") / "features.zarr" / "words" / "c.0.1.0"
    chunk.write_bytes(bytes(byte ^ (place == 100) for place, byte in enumerate(chunk.read_bytes())))
    message = refused("cache", "verify", bert, corpus, "train")
    assert message.startswith(str(entry_of(cache, "train").relative_to(cache.parent)))
    assert "words" in message and "row chunk 0, layer index 1" in message
    assert message.endswith("The entry cannot be trusted: extract it again with --overwrite.")
    words = ("sweep", bert, corpus, "--head", "mean", "--l2", "1")
    assert "row chunk 0, layer index 1" in refused(*words)
    done(*words, "--no-check")
    done("extract", bert, corpus, *FLOAT32, "--split", "train", "--overwrite")
    assert "all 5 chunks match" in done("cache", "verify", bert, corpus, "train").err


def test_an_entry_without_its_manifest(bert, corpus, cache, here):
    manifest = entry_of(cache, "train") / "manifest.json"
    manifest.write_text("{")
    assert "manifest.json is not JSON (" in refused("cache", "info", bert, corpus, "train")
    manifest.unlink()
    message = refused("train", bert, corpus, *TRAIN)
    assert message.endswith("it has no manifest.json. Extract the entry again with --overwrite.")
    assert refused("cache", "info", bert, corpus, "train") == message
    outcome = done("cache", "ls", "--json")
    assert [row["state"] for row in outcome.rows] == ["complete", "damaged"]
    assert message in outcome.err


@pytest.mark.parametrize(
    ("option", "told"),
    [("--out", "/dev/null/x/y: cannot "), ("--save", "--save /dev/null/x/y: /dev/null is a file")],
)
def test_results_that_cannot_be_written(bert, corpus, cache, here, option, told):
    outcome = run("train", bert, corpus, *TRAIN, option, "/dev/null/x/y")
    assert outcome.code == 1 and outcome.err.splitlines()[-1].startswith(f"error: {told}")
    assert not list(here.glob("runs/**/*.jsonl"))
