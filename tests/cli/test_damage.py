"""Entries that are damaged, newer, locked or cannot be written: found, named, never used."""

import errno
import json
import os
import re
import socket
import subprocess
import sys

import pytest

from tests.cli.conftest import FLOAT32, entry_of
from tests.cli.console import done, refused, run, the_error

TRAIN = ("--head", "last", "--epochs", "1")


def chunk(cache):
    """The file of words, row chunk 0, layer 1, of train."""
    return entry_of(cache, "train") / "features.zarr" / "words" / "c.0.1.0"


def flip(path, place):
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def test_a_flipped_byte_is_found_and_named(bert, corpus, cache):
    flip(chunk(cache), 100)
    message = refused("cache", "verify", bert, corpus, "train")
    assert message.startswith(str(entry_of(cache, "train").relative_to(cache.parent)))
    assert "words" in message
    assert "row chunk 0, layer index 1" in message
    assert message.endswith("The entry cannot be trusted: extract it again with --overwrite.")
    done("extract", bert, corpus, *FLOAT32, "--split", "train", "--overwrite")
    assert "all 5 chunks match" in done("cache", "verify", bert, corpus, "train").err


def test_a_flipped_byte_is_found_by_who_trains(bert, corpus, cache, here):
    flip(chunk(cache), 100)
    for workers in ("1", "2"):
        words = ("sweep", bert, corpus, "--head", "mean", "--seeds", "2", "--workers", workers)
        assert "row chunk 0, layer index 1" in refused(*words)
        assert done(*words, "--no-check", "--out", f"{workers}.jsonl")


def test_a_flipped_byte_in_hdf5(bert, corpus, hdf5_cache):
    file = entry_of(hdf5_cache, "dev") / "features.h5"
    flip(file, file.stat().st_size - 100)
    message = refused("cache", "verify", bert, corpus)
    assert re.search(r"(words|tokens).*row chunk \d+, layer index \d+", message)
    assert "all 5 chunks match" in done("cache", "verify", bert, corpus, "train").err


@pytest.mark.parametrize("command", ["train", "sweep", "depth", "extract"])
def test_a_deleted_chunk(bert, corpus, cache, here, command):
    chunk(cache).unlink()
    options = FLOAT32 if command == "extract" else TRAIN
    message = refused(command, bert, corpus, *options)
    assert re.search(r"'words': chunk \(row chunk 0, layer index 1\) is missing", message)
    assert "--overwrite" in message
    assert not (here / "runs").exists()


def test_a_truncated_hdf5_file(bert, corpus, hdf5_cache, here):
    file = entry_of(hdf5_cache, "train") / "features.h5"
    os.truncate(file, file.stat().st_size // 2)
    for words in (("train", bert, corpus, *TRAIN), ("cache", "verify", bert, corpus, "train")):
        message = refused(*words)
        assert "features.h5" in message
        assert "--overwrite" in message
    assert not (here / "runs").exists()


def test_an_entry_of_a_newer_format(bert, corpus, cache, here):
    manifest = entry_of(cache, "train") / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"format_version": 99}))
    message = refused("train", bert, corpus, *TRAIN)
    assert re.search(r"99.*probekit", message)
    assert refused("cache", "info", bert, corpus, "train") == message
    states = [row["state"] for row in done("cache", "ls", "--json").rows]
    assert states == ["complete", "unreadable"]
    assert not (here / "runs").exists()


def test_an_entry_without_its_manifest(bert, corpus, cache, here):
    (entry_of(cache, "train") / "manifest.json").unlink()
    message = refused("train", bert, corpus, *TRAIN)
    assert message.endswith("it has no manifest.json. Extract the entry again with --overwrite.")
    for words in ((bert, corpus, "train"), (entry_of(cache, "train").relative_to(here),)):
        assert refused("cache", "info", *words) == message
    outcome = done("cache", "ls", "--json")
    assert [row["state"] for row in outcome.rows] == ["complete", "damaged"]
    assert message in outcome.err


def test_a_second_process_on_the_same_entry(bert, corpus, cache):
    final = entry_of(cache, "train")
    code = (
        "import sys; from pathlib import Path; from probekit.store.lock import EntryLock; "
        "lock = EntryLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(final)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout.readline() == "held\n"
        message = refused("extract", bert, corpus, *FLOAT32, "--overwrite")
        assert message.startswith(
            f"{final.relative_to(cache.parent)} is being written by process {holder.pid} on "
            f"{socket.gethostname()}, started "
        )
        assert message.endswith("(finished units are kept).")
        outcome = run("cache", "rm", bert, corpus, "train", "--yes")
        assert outcome.code == 1 and "is being written by" in the_error(outcome.err, after=1)
        assert final.is_dir()
        holder.stdin.close()
    done("extract", bert, corpus, *FLOAT32, "--overwrite")


@pytest.mark.parametrize("root", ["/dev/null/x", "file"])
def test_a_cache_that_cannot_be_a_folder(bert, corpus, here, root):
    (here / "file").touch()
    message = refused("extract", bert, corpus, "--cache", root)
    assert message.startswith(f"cannot write to {root}/bert/corpus-")
    assert message.endswith("Choose another folder with --cache ROOT.")
    assert [path.name for path in here.iterdir()] == ["file"]


def test_a_cache_at_a_url(bert, corpus, here):
    for command in ("extract", "train"):
        message = refused(command, bert, corpus, "--cache", "ftp://host/cache")
        assert "ftp://host/cache is a URL, and a cache is a folder. `probekit cache pull" in message
    assert list(here.iterdir()) == []


def test_a_cache_without_permission(bert, corpus, here, monkeypatch):
    def read_only(path, *arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", read_only)
    message = refused("extract", bert, corpus)
    assert re.fullmatch(
        r"cannot write to cache/bert/corpus-\w{8}: Permission denied. Give this user write "
        r"permission, or choose another folder with --cache ROOT\.",
        message,
    )
    assert list(here.iterdir()) == []


def test_a_disk_too_small(bert, corpus, here, monkeypatch):
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr("probekit.store.files.shutil.disk_usage", lambda path: usage)
    message = refused("extract", bert, corpus)
    assert re.match(r".* has 1\.0 kB free, and this extraction writes 131\.1 kB\. ", message)
    assert "--dtype int8" in message
    assert list(here.iterdir()) == []


def test_a_disk_that_fills_up_keeps_what_is_finished(bert, corpus, here, monkeypatch):
    """The tenth chunk does not fit; with space again, the same command goes on."""
    from probekit.extraction import plan, units
    from probekit.store.unfinished import UnitMark

    written = []
    write = UnitMark.write

    def fill_up(mark, folder):
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        written.append(mark)
        write(mark, folder)

    monkeypatch.setattr(units, "UNIT_BYTES", 8_000)
    monkeypatch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 16)
    monkeypatch.setattr(UnitMark, "write", fill_up)
    words = ("extract", bert, corpus, *FLOAT32, "--split", "train")
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (1, "")
    message = the_error(outcome.err.splitlines()[-1])
    assert "No space left on device" in message
    assert "run the same command again (finished units are kept)" in message
    monkeypatch.setattr(UnitMark, "write", write)
    outcome = done(*words)
    assert re.search(r"resuming .*: 3 of \d+ units done", outcome.err)
    assert "match their checksums" in done("cache", "verify", bert, corpus).err


@pytest.mark.parametrize("target", ["--out", "--save"])
def test_results_that_cannot_be_written(bert, corpus, cache, here, target):
    outcome = run("train", bert, corpus, *TRAIN, target, "/dev/null/x/y")
    message = outcome.err.splitlines()[-1].removeprefix("error: ")
    assert outcome.code == 1
    told = {
        "--out": "/dev/null/x/y: cannot ",
        "--save": "--save /dev/null/x/y: /dev/null is a file",
    }
    assert message.startswith(told[target])
    assert not list(here.glob("runs/**/*.jsonl"))
