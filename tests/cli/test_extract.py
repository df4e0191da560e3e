"""``probekit extract``: what it prints, what it leaves, and options that cannot be used."""

import re
import shutil

import pytest
import torch

from probekit.extraction.dry_run import DiskSpeed
from probekit.store.entry import Entry
from tests import tiny
from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused

ESTIMATE = re.compile(
    r"train: 40 examples; writing 180 words x 4 layers x 32 and 601 tokens x 1 layer x 32 "
    r"\([\d.]+ kB\) to cache/bert/corpus-\w{8}/train-\w{8} in about 1 s \([\d,]+ tokens/s\)"
)


@pytest.mark.parametrize("name", ["zarr", "hdf5"])
def test_paths_on_stdout_and_an_estimate_on_stderr(bert, corpus, here, name):
    outcome = done("extract", bert, corpus, "--format", name)
    train, dev = map(Entry.open, map(here.joinpath, outcome.out.splitlines()))
    assert (train.manifest.split, dev.manifest.split) == ("train", "dev")
    assert train.manifest.backend == name
    first, second, third = outcome.err.splitlines()
    assert ESTIMATE.fullmatch(first), first
    assert second.startswith("dev: 10 examples; ")
    assert re.match(r"dev: \d+ of 10 texts \(.* are in train too", third), third


def test_both_formats_hold_the_same_rows(entries):
    zarr, hdf5 = (Entry.open(entry_of(entries[name], "train")) for name in ("zarr", "hdf5"))
    for name in ("words", "tokens"):
        one, other = (entry.arrays[name].read(slice(None)) for entry in (zarr, hdf5))
        assert torch.equal(one, other)


def test_a_complete_entry_is_named_again_and_not_computed_again(bert, corpus, cache, monkeypatch):
    monkeypatch.setattr("probekit.extraction.opening.load_backbone", None)
    outcome = done("extract", bert, corpus, *FLOAT32)
    assert len(outcome.out.splitlines()) == 2
    assert re.match(r"train: complete already, at cache/bert/", outcome.err)


def test_json_is_one_manifest_per_line(bert, corpus, cache):
    train, dev = done("extract", bert, corpus, *FLOAT32, "--json").rows
    assert (train["counts"]["words"], dev["split"]) == (180, "dev")
    assert train["path"] == str(entry_of(cache, "train").relative_to(cache.parent))


def test_one_split_few_layers_first_examples(bert, corpus):
    (row,) = done(
        "extract", bert, corpus, "--split", "dev", "--layers", "0,-1", "--keep", "words",
        "--limit", "5", "--dtype", "int8", "--json",
    ).rows  # fmt: skip
    assert (row["split"], row["dtype"], row["counts"]["examples"]) == ("dev", "int8", 5)
    assert [(array["name"], array["layers"]) for array in row["arrays"]] == [("words", [0, 3])]


def test_a_tokenizer_without_a_pad_token_is_no_obstacle(corpus, here):
    model = tiny.build("gpt2", here / "gpt2")
    (row,) = done("extract", model, corpus, *FLOAT32, "--split", "dev", "--json").rows
    assert row["causal"]
    outcome = done("cache", "verify", row["path"], "--rows", "20")
    assert "within tolerance (median 1e-03" in outcome.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "train,tset"), r"unknown split of .*corpus 'tset'.* Choose from: dev, train"),
        (("--split", ""), r"--split names no split of .*corpus: train, dev"),
        (("--dtype", "fp16"), r"--dtype 'fp16' is none of: auto, float16, bfloat16, float32"),
        (("--compute-dtype", "half"), r"--compute-dtype 'half' is none of: auto, float32"),
        (("--format", "h5"), r"unknown format 'h5'. Did you mean 'hdf5'\? Choose from: hdf5, zarr"),
        (("--layers", "9"), r"layer 9 does not exist; this model has layers 0 \(embeddings\) to 3"),
        (("--layers", "top"), r"layers 'top': cannot read 'top'. Write 'all'"),
        (
            ("--keep", "word"),
            r"--keep 'word' is none of: words, predicted, cls, mean, last, tokens, output-head",
        ),
        (
            ("--keep", ""),
            r"--keep names no array. Choose from: words, predicted, cls, mean, last, tokens",
        ),
        (("--pooling", "max"), r"--pooling 'max' is none of: auto, first, last, mean"),
        (("--overlong", "cut"), r"--overlong 'cut' is none of: stride, truncate, error"),
        (("--max-length", "65"), r"--max-length 65: .*bert reads at most 64 subwords"),
        (("--max-length", "2"), r"leaves no room for text .*; give at least 3"),
        (("--limit", "0"), r"--limit must be a positive number; found 0"),
        (("--device", "gpu"), r"--device 'gpu' is unknown. Write cpu, cuda or cuda:1"),
        (("--revision", "v1"), r"--revision v1 applies to a Hub repository.* Leave it out"),
        (("--data", "x"), r"corpus is the data already; leave --data x out"),
        (("--kind", "pair"), r"no file is named after a split; expected .*\.jsonl, \.parquet"),
        (("--kind", "tags"), r"unknown kind 'tags'.* Choose from: .*tagging"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_cannot_be_used(bert, corpus, here, options, message):
    assert re.search(message, refused("extract", bert, corpus, *options))
    assert list(here.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there(bert, corpus, here):
    message = refused("extract", bert, corpus, "--device", "cuda")
    assert message == "--device 'cuda': 0 CUDA devices are available. Use cpu."
    assert list(here.iterdir()) == []


def test_several_label_columns_one_extraction(bert, here):
    """The column is named at extraction; training on another one reads it from the file."""
    lines = '{"tokens": ["Maria", "left"], "ner": ["B-PER", "O"], "pos": ["N", "V"]}\n'
    (here / "two").mkdir()
    for split in ("train", "dev"):
        (here / "two" / f"{split}.jsonl").write_text(lines)
    done("extract", bert, "two", *FLOAT32, "--label", "ner")
    for label, metric in (("ner", "span-f1"), ("pos", "accuracy")):
        words = ("train", bert, "two", "--label", label, "--head", "concat", "--epochs", "1")
        assert done(*words, "--select", "dev", "--json").rows[0]["metric"] == metric
    for command in ("train", "depth"):
        message = refused(command, bert, "two", "--head", "last")
        assert message == (
            "two/train.jsonl has several label columns: ner, pos. Choose one with --label."
        )


def test_a_task_of_the_package(bert, here):
    done("extract", bert, "demo-ner", *FLOAT32, "--limit", "20")
    words = ("train", bert, "demo-ner", "--head", "last", "--epochs", "1", "--json")
    assert done(*words).rows[0]["label"] == "ner"
    assert (here / "runs" / "bert" / "demo-ner.jsonl").exists()


def test_dry_run_writes_nothing(bert, corpus, here):
    outcome = done("extract", bert, corpus, "--dry-run")
    header, train, dev, verdict = outcome.out.splitlines()
    assert re.split(r"\s{2,}", header) == [
        "split", "examples", "rows", "size", "extraction", "units", "epoch with the model",
        "epoch from the cache",
    ]  # fmt: skip
    assert re.match(r"train  40        180 words, 601 tokens  [\d.]+ kB  [\d.]+ m?s ", train)
    assert dev.startswith("dev    10 ")
    assert re.match(r"The cache has paid for itself after \d+ epochs? of one head over ", verdict)
    assert outcome.err == ""
    assert list(here.iterdir()) == []


def test_dry_run_as_json(bert, corpus, cache):
    train, dev = done("extract", bert, corpus, *FLOAT32, "--dry-run", "--json").rows
    assert (train["rows"], dev["split"]) == ({"words": 180, "tokens": 601}, "dev")
    assert train["complete"] and train["seconds"] == 0
    assert train["path"] == str(entry_of(cache, "train").relative_to(cache.parent))
    outcome = done("extract", bert, corpus, *FLOAT32, "--dry-run")
    assert outcome.out.splitlines()[-1] == "All of it is in the cache already."


def test_dry_run_warns_of_a_cache_that_loses(bert, corpus, monkeypatch):
    slow = DiskSpeed(write=1e9, read=1.0)
    monkeypatch.setattr("probekit.extraction.dry_run.measure_disk", lambda *_, **__: slow)
    verdict = done("extract", bert, corpus, "--dry-run").out.splitlines()[-1]
    assert verdict.startswith("Caching would lose: an epoch over train takes longer to read (")
    assert verdict.endswith("or choose a faster disk with --cache.")
    rows = done("extract", bert, corpus, "--dry-run", "--json").rows
    assert [row["break_even_epochs"] for row in rows] == [None, None]


def test_own_labels_are_those_of_the_file_now(bert, corpus, here):
    """Whoever corrects a file of their own need not say that it holds the labels."""
    quick = ("--head", "last", "--epochs", "1")
    own = shutil.copytree(corpus, here / "own")
    done("extract", bert, own, "--compute-dtype", "float32")
    (before,) = done("train", bert, own, *quick, "--json").rows
    text = (own / "train.conll").read_text("utf-8")
    (own / "train.conll").write_text(text.replace("\tB-LOC", "\tO"), "utf-8")
    (after,) = done("train", bert, own, *quick, "--json").rows
    assert after["labels_fingerprint"] != before["labels_fingerprint"]
    (own / "train.conll").write_text(text, "utf-8")
    assert done("train", bert, own, *quick, "--json").rows == [before]
    (own / "train.conll").write_text(text.replace("river", "brook"), "utf-8")
    assert "split train, has changed since" in refused("train", bert, own, *quick)
