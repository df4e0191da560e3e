"""``probekit cache import``, from states of plain transformers to a trained head."""

import json
import shlex

import pytest

from probekit.store.entry import Entry
from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused, run
from tests.extraction.imports.exporting import Exporter, vllm_folder

PLAIN = ("--layer-ids", "0:4", "--dtype", "float32", "--label", "2")


def sentences(file):
    groups = file.read_text("utf-8").strip().split("\n\n")
    return [[line.split("\t")[0] for line in group.splitlines()] for group in groups]


@pytest.fixture
def states(bert, corpus, here):
    """States of both splits, as vLLM leaves them."""
    exporter = Exporter(bert)
    for split in ("train", "dev"):
        found = [exporter.tokens(words) for words in sentences(corpus / f"{split}.conll")]
        vllm_folder(here / "states" / split, found)
    return here / "states"


def test_from_states_to_a_score(states, bert, corpus, here):
    pairs = [f"{split}={states / split}" for split in ("train", "dev")]
    said = done("cache", "import", bert, corpus, *pairs, *PLAIN, "--producer", "vllm 0.18")
    assert "train-" in said.out and "40 examples; writing" in said.err
    done("extract", bert, corpus, *FLOAT32, "--dtype", "float32", "--label", "2", "--cache", "own")
    rows = done("cache", "ls", "--json").rows
    assert [row["state"] for row in rows] == ["complete, imported"] * 2
    train = entry_of(here / "cache", "train")
    assert "imported, computed by vllm 0.18" in done("cache", "info", train).out
    assert "within tolerance" in done("cache", "verify", train, "--rows", "20").out
    command = ("--head", "mean", "--label", "2", "--epochs", "2", "--lr", "0.01")
    done("train", bert, corpus, *command, "--out", "a.jsonl")
    done("train", bert, corpus, *command, "--out", "b.jsonl", "--cache", "own")
    one, two = (json.loads((here / name).read_text()) for name in ("a.jsonl", "b.jsonl"))
    assert one["eval_score"] == two["eval_score"] and one["entry"] != two["entry"]
    imported, native = Entry.open(train), Entry.open(entry_of(here / "own", "train"))
    assert imported.examples.table.equals(native.examples.table)
    done("depth", bert, corpus, *command, "--out", "d.jsonl")
    done("plot", "depth", "d.jsonl", "-o", "depth.png")


def test_what_cannot_be_imported_is_said_in_one_line(states, bert, corpus, here):
    train = f"train={states / 'train'}"
    said = refused("cache", "import", bert, corpus, train, "--label", "2")
    assert "has 4 layers. Give their numbers," in said and "0:4 if these are all" in said
    said = refused("cache", "import", bert, corpus, train, train, *PLAIN)
    assert "two STATES of one split" in said
    said = refused("cache", "import", bert, corpus, states / "dev", "b", *PLAIN)
    assert "is of which split?" in said
    said = refused("cache", "import", bert, corpus, train, "--split", "train", *PLAIN)
    assert "leave --split train out" in said
    said = refused("cache", "import", bert, corpus, states / "dev", "--split", "train", *PLAIN)
    assert "none of 10 sequences has the tokens of example" in said
    assert not (here / "cache").exists()


def test_the_command_for_another_dtype_is_said_and_works(bert, corpus, here):
    exporter, found = Exporter(bert), []
    for words in sentences(corpus / "dev.conll"):
        ids, states = exporter.tokens(words)
        found.append((ids, states * 1e6))
    vllm_folder(here / "large states", found)
    options = ("--layer-ids", "0:4", "--dtype", "float16", "--label", "2")
    failed = run("cache", "import", bert, corpus, "dev=large states", *options)
    assert failed.code == 1
    command = shlex.split(failed.err.partition("Rerun: ")[2])
    assert command[:3] == ["probekit", "cache", "import"] and "dev=large states" in command
    done(*command[1:])
    assert Entry.open(entry_of(here / "cache", "dev")).manifest.dtype == "bfloat16"
