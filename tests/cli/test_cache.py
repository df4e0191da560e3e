"""``probekit cache``: list, describe, verify, remove, merge, import, copy and share entries."""

import json
import shlex
from pathlib import Path

import pytest

from probekit.base.notices import human_bytes
from probekit.store.entry import Entry
from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused, run
from tests.extraction.imports.exporting import Exporter, vllm_folder
from tests.hub_server import HubServer


def relative(cache: Path, split: str) -> Path:
    return entry_of(cache, split).relative_to(cache.parent)


def test_ls_sorts_and_adds_up(bert, corpus, cache):
    header, dev, train = done("cache", "ls").out.splitlines()
    assert header.split()[:5] == ["model", "task", "split", "part", "key"]
    assert (dev.split()[2], train.split()[2]) == ("dev", "train")
    done("extract", bert, corpus, *FLOAT32, "--split", "dev", "--dtype", "int8")
    by_name = done("cache", "ls", "--json").rows
    by_size = done("cache", "ls", "--sort", "size", "--json").rows
    assert by_size == sorted(by_name, key=lambda row: -row["bytes"]) != by_name
    by_time = done("cache", "ls", "--sort", "created", "--json").rows
    assert [row["created"] for row in by_time] == sorted(r["created"] for r in by_name)[::-1]
    outcome = done("cache", "ls")
    total = human_bytes(sum(row["bytes"] for row in by_name))
    assert outcome.err == f"3 entries, {total}\n"
    empty = done("cache", "ls", "--cache", "c")
    assert empty.err == "no entries in c. `probekit extract MODEL TASK` makes one.\n"


def test_info(bert, corpus, cache):
    pairs = dict(
        line.split("  ", 1) for line in done("cache", "info", bert, corpus, "dev").out.splitlines()
    )
    shown = {"split": "dev", "layers": "0, 1, 2, 3 (0 = emb)", "model": str(bert), "labels": "2"}
    shown["size"] = done("cache", "ls", "--json").rows[0]["size"]
    assert {name: pairs[name].strip() for name in shown} == shown
    (row,) = done("cache", "info", relative(cache, "dev"), "--json").rows
    assert row["counts"]["words"] == 45


def test_verify_with_rows(bert, corpus, cache):
    outcome = done("cache", "verify", bert, corpus, "dev", "--rows", "20", "--device", "cpu")
    assert outcome.err == f"{relative(cache, 'dev')}: all 5 chunks match their checksums\n"
    assert outcome.out.splitlines()[0].split()[0] == "layer"
    assert outcome.out.splitlines()[1].startswith("0 = emb")
    assert " rows against a float32 pass of one sentence at a time: within tolerance" in outcome.out
    (report,) = done("cache", "verify", bert, corpus, "dev", "--rows", "20", "--json").rows
    assert report["passed"]
    assert list(report["median"]) == ["0", "1", "2", "3"]


def test_rows_out_of_tolerance_exit_with_1(bert, corpus, cache, monkeypatch):
    tolerance = "probekit.extraction.maintenance.row_errors._COMPUTE_TOLERANCE"
    monkeypatch.setattr(tolerance, {"float32": 1e-9})
    outcome = run("cache", "verify", bert, corpus, "dev", "--rows", "20")
    assert outcome.code == 1 and "NOT within tolerance" in outcome.out
    assert "--rows N" in refused("cache", "verify", bert, "--against", relative(cache, "train"))


def test_path_names_entries_by_model_task_split_and_key(bert, corpus, cache, monkeypatch):
    train, dev = relative(cache, "train"), relative(cache, "dev")
    for words in ((bert, corpus), ("bert",)):
        assert done("cache", "path", *words).out.split() == [str(dev), str(train)]
    for last in ("dev", dev.name, dev.name[-8:]):
        assert done("cache", "path", bert, corpus, last).out.split() == [str(dev)]
    for words in (("other",), (bert, "conll"), (bert, corpus, "test")):
        message = refused("cache", "path", *words)
        assert message.startswith(f"no cache entry matches {' '.join(map(str, words))} in cache.")
    monkeypatch.chdir(cache)  # where bert is the folder of the model in the cache
    outcome = done("cache", "path", "bert", corpus, "dev", "--cache", ".")
    assert outcome.out.strip() == str(dev.relative_to("cache"))


def test_rm(bert, corpus, cache):
    path = relative(cache, "dev")
    for answer in ("n\n", ""):
        outcome = run("cache", "rm", bert, corpus, "dev", text=answer)
        assert outcome.code == 1 and "Remove cache/bert/" in outcome.err and path.exists()
    message = refused("cache", "rm", "bert", "--yes")
    assert message.startswith("bert has 2 entries, of all its tasks: name a TASK as well")
    outcome = done("cache", "rm", bert, corpus, "dev", "--yes")
    first, second = outcome.err.splitlines()
    assert first.startswith(f"removing {path} (") and first.endswith("kB)")
    assert (outcome.out, second) == ("", f"removed {path}")
    assert not path.exists() and relative(cache, "train").exists()


def test_caches_of_shards_are_merged(bert, corpus):
    for node in ("1", "2"):
        done("extract", bert, corpus, *FLOAT32, "--cache", f"node{node}", "--shard", f"{node}/2")
    merged = done("cache", "merge", "node1", "node2").out.split()
    rows = done("cache", "info", *merged, "--json").rows
    assert {row["split"] for row in rows} == {"train", "dev"}
    done("extract", bert, corpus, *FLOAT32, "--split", "dev", "--cache", "alone")
    args = ("cache", "path", bert, corpus, "dev", "--cache")
    merged, alone = done(*args, "cache").out.strip(), done(*args, "alone").out.strip()
    done("cache", "verify", merged, "--rows", "3", "--against", alone)
    assert "cache holds nothing unfinished" in refused("cache", "merge")


REPO = "me/states"
URL = f"hf://datasets/{REPO}"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(here, monkeypatch):
    with HubServer({}, uploads=here / "hub") as server:
        server.redirect(monkeypatch, here / "home")
        yield server


def test_push_and_pull(bert, corpus, cache, hub, here):
    listed = done("cache", "push", bert, corpus, URL, "--split", "dev", "--dry-run")
    assert hub.requests == [], "nothing is asked of the Hub"
    assert listed.out.splitlines()[0].split() == ["size", "file"]
    assert "features.zarr/words/c.0.3.0" in listed.out
    assert listed.err.splitlines()[0].endswith(f" in {len(listed.out.splitlines()) - 1} files")
    assert "where things lay on this machine: " in listed.err
    assert str(bert) in listed.err and str(corpus) in listed.err
    rows = done("cache", "push", bert, corpus, URL, "--split", "dev", "--dry-run", "--json").rows
    assert {*rows[0]} == {"bytes", "file"} and len(rows) == len(listed.out.splitlines()) - 1

    no = run("cache", "push", bert, corpus, URL, text="n\n")
    assert no.code == 1 and f" files to {URL} (public, unless" in no.err
    assert hub.requests == []
    asked = done("cache", "push", bert, corpus, URL, text="y\n")
    assert asked.out.splitlines()[-1].startswith(f"{hub.url}/datasets/{REPO}/commit/")

    listed = done("cache", "pull", URL, "--layers", "1,2", "--dry-run", "--cache", "new")
    assert listed.out.count("new/bert/") == 2 and not (here / "new").exists()
    pulled = done("cache", "pull", URL, "--cache", "new")
    assert [here / line for line in pulled.out.split()] == [
        entry_of(here / "new", split) for split in ("dev", "train")
    ]
    assert pulled.err.startswith("pulling ") and f" from {URL}\n" in pulled.err
    done("cache", "verify", "bert", corpus, "--cache", "new")
    (row,) = done("cache", "pull", URL, "--split", "dev", "--cache", "new", "--json").rows
    assert row["split"] == "dev"


def test_without_the_text(bert, corpus, cache, hub, here):
    done("cache", "push", entry_of(cache, "train"), URL, "--no-text", "--yes")
    command = ("cache", "pull", URL, "--cache", "new")
    outcome = run(*command)
    assert outcome.code == 1 and "was pushed without its text" in outcome.err
    outcome = run(*command, "--data", here)
    assert outcome.code == 1, outcome
    done(*command, "--data", corpus, "--label", "2")
    report = done("cache", "verify", entry_of(here / "new", "train"), "--rows", "5")
    assert "chunks match their checksums" in report.err
    assert report.out.splitlines()[1].startswith("0 = emb"), "what the model reads is its text"


def test_what_is_refused(cache, corpus, bert, hub):
    told = refused("cache", "push", bert, corpus, URL, "--split", "test", "--yes")
    assert "no entry of split 'test' is among those that are named, which are of dev, train" in told
    told = refused("train", bert, corpus, "--head", "last", "--cache", "s3://bucket/x")
    assert "s3://bucket/x is a URL, but a cache is a folder. `probekit cache pull URL`" in told
    assert "no cache entry matches other in cache" in refused("cache", "push", "other", URL)
    assert "does not exist, or you have no access to it" in refused("cache", "pull", URL)


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
