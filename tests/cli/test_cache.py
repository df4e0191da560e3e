"""``probekit cache``: list, describe, verify, locate and remove entries."""

from pathlib import Path

import pytest

from probekit.base.notices import human_bytes
from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused, run


def relative(cache: Path, split: str) -> Path:
    return entry_of(cache, split).relative_to(cache.parent)


def test_ls(cache):
    header, dev, train = done("cache", "ls").out.splitlines()
    assert header.split()[:5] == ["model", "task", "split", "part", "key"]
    assert (dev.split()[2], train.split()[2]) == ("dev", "train")
    rows = done("cache", "ls", "--json").rows
    assert [(row["model"], row["split"], row["words"]) for row in rows] == [
        ("bert", "dev", 45),
        ("bert", "train", 180),
    ]


def test_ls_sorts_and_adds_up(bert, corpus, cache):
    done("extract", bert, corpus, *FLOAT32, "--split", "dev", "--dtype", "int8")
    by_name = done("cache", "ls", "--json").rows
    by_size = done("cache", "ls", "--sort", "size", "--json").rows
    assert by_size == sorted(by_name, key=lambda row: -row["bytes"]) != by_name
    by_time = done("cache", "ls", "--sort", "created", "--json").rows
    assert [row["created"] for row in by_time] == sorted(r["created"] for r in by_name)[::-1]
    outcome = done("cache", "ls")
    total = human_bytes(sum(row["bytes"] for row in by_name))
    assert outcome.err == f"3 entries, {total}\n"
    assert refused("cache", "ls", "--sort", "colour").startswith("unknown order 'colour'.")


def test_ls_of_nothing_says_so_and_prints_no_result(here):
    outcome = done("cache", "ls")
    assert outcome.out == ""
    assert outcome.err == "no entries in cache. `probekit extract MODEL TASK` makes one.\n"


def test_info(bert, corpus, cache):
    pairs = dict(
        line.split("  ", 1) for line in done("cache", "info", bert, corpus, "dev").out.splitlines()
    )
    assert pairs["split"].strip() == "dev"
    assert pairs["layers"].strip() == "0, 1, 2, 3 (0 = emb)"
    assert pairs["model"].strip() == str(bert)
    assert pairs["part of the split"].strip() == "the whole split"
    assert pairs["labels"].strip() == "2"
    listed = done("cache", "ls", "--json").rows
    assert pairs["size"].strip() == listed[0]["size"]
    (row,) = done("cache", "info", relative(cache, "dev"), "--json").rows
    assert row["counts"]["words"] == 45


def test_path_names_entries_by_model_task_split_and_key(bert, corpus, cache):
    train, dev = relative(cache, "train"), relative(cache, "dev")
    assert done("cache", "path", bert, corpus).out.split() == [str(dev), str(train)]
    assert done("cache", "path", "bert").out.split() == [str(dev), str(train)]
    for last in ("dev", dev.name, dev.name[-8:]):
        assert done("cache", "path", bert, corpus, last).out.split() == [str(dev)]


def test_nothing_matches(bert, corpus, cache):
    for words in (("other",), (bert, "conll"), (bert, corpus, "test")):
        message = refused("cache", "path", *words)
        assert message.startswith(f"no cache entry matches {' '.join(map(str, words))} in cache.")
        assert message.endswith("`probekit cache ls` lists them.")


def test_a_flip_in_what_an_entry_is_of_hides_it_from_nobody(bert, corpus, cache):
    file = relative(cache, "dev") / "manifest.json"
    file.write_text(file.read_text().replace('"vocab_size"', '"vocab_siza"'))
    assert "is not the digest of what was asked for" in refused("cache", "verify", bert, corpus)


def test_verify_with_rows(bert, corpus, cache):
    outcome = done("cache", "verify", bert, corpus, "dev", "--rows", "20", "--device", "cpu")
    assert outcome.err == f"{relative(cache, 'dev')}: all 5 chunks match their checksums\n"
    assert outcome.out.splitlines()[0].split()[0] == "layer"
    assert outcome.out.splitlines()[1].startswith("0 = emb")
    assert " rows against float32 pass, one sentence: within tolerance" in outcome.out
    (report,) = done("cache", "verify", bert, corpus, "dev", "--rows", "20", "--json").rows
    assert report["passed"]
    assert list(report["median"]) == ["0", "1", "2", "3"]


def test_verify_runs_the_model_where_it_is_told(bert, corpus, cache):
    outcome = run("cache", "verify", bert, corpus, "dev", "--rows", "2", "--device", "nowhere")
    assert outcome.code == 1 and "nowhere" in outcome.err.splitlines()[-1]


def test_rows_out_of_tolerance_exit_with_1(bert, corpus, cache, monkeypatch):
    monkeypatch.setattr(
        "probekit.extraction.maintenance.row_errors._COMPUTE_TOLERANCE",
        dict.fromkeys(("float32",), 1e-9),
    )
    outcome = run("cache", "verify", bert, corpus, "dev", "--rows", "20")
    assert outcome.code == 1
    assert "NOT within tolerance" in outcome.out


def test_int8_against_its_unquantised_rows(bert, corpus, cache):
    exact = relative(cache, "dev")
    words = ("extract", bert, corpus, *FLOAT32, "--split", "dev", "--dtype", "int8", "--json")
    (small,) = done(*words).rows
    outcome = done("cache", "verify", small["path"], "--against", exact, "--rows", "30")
    assert f" rows against {exact}: within tolerance" in outcome.out


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_rm_asks_and_a_no_removes_nothing(bert, corpus, cache, answer):
    outcome = run("cache", "rm", bert, corpus, "dev", text=answer)
    assert outcome.code == 1
    assert "Remove cache/bert/" in outcome.err
    assert relative(cache, "dev").exists()


def test_rm_does_not_empty_a_model_unasked(bert, cache):
    message = refused("cache", "rm", "bert", "--yes")
    assert message.startswith("bert has 2 entries, of all its tasks: name a TASK as well")
    assert relative(cache, "dev").exists() and relative(cache, "train").exists()


def test_rm(bert, corpus, cache):
    path = relative(cache, "dev")
    outcome = done("cache", "rm", bert, corpus, "dev", "--yes")
    assert outcome.out == ""
    first, second = outcome.err.splitlines()
    assert first.startswith(f"removing {path} (") and first.endswith("kB)")
    assert second == f"removed {path}"
    assert not path.exists()
    assert relative(cache, "train").exists()


def test_a_model_is_found_by_name_from_inside_the_cache(bert, corpus, cache, monkeypatch):
    monkeypatch.chdir(cache)
    outcome = done("cache", "path", "bert", corpus, "dev", "--cache", ".")
    assert outcome.out.strip() == str(relative(cache, "dev").relative_to("cache"))
    assert "no cache entry matches" in refused("cache", "path", "./bert", "--cache", ".")
