"""``probekit cache``: list, describe, verify, locate, remove and merge entries."""

from pathlib import Path

from probekit.base.notices import human_bytes
from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused, run


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
