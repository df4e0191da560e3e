"""`cache rm --layers` and `--array`: what is left is an entry, and is not taken for the whole."""

import shutil

import pytest
import torch

from probekit.base.fingerprint import digest
from probekit.errors import EntryError, OptionError, StorageError
from probekit.extraction.maintenance import Reduction, check_chunks, select_folders
from probekit.store.entry import Entry
from probekit.store.layout import limit_of
from tests.cli.console import done, run
from tests.extraction.extracted import interrupted_after
from tests.extraction.extracted import run as extract
from tests.extraction.maintenance.conftest import FORMS, entry_in
from tests.extraction.maintenance.test_removal import tree
from tests.forks import kill_at


@pytest.fixture(params=FORMS, ids="-".join)
def made(request, caches, tmp_path):
    """An entry with words and tokens of a model of three blocks."""
    return Entry.open(entry_in(shutil.copytree(caches[request.param], tmp_path / "cache")))


@pytest.fixture
def plain(cache):
    """The same in one form."""
    return Entry.open(entry_in(cache))


def rows(entry, name, layers):
    return entry.arrays[name].read(slice(None), layers).clone()


def test_layers_go(made):
    kept, tokens = rows(made, "words", [0, 3]), rows(made, "tokens", None)
    table = made.examples.table
    before, size = made.manifest, sum(spec.nbytes for spec in made.manifest.arrays)
    planned = Reduction.of(made.path, layers="1:3", arrays=())
    assert planned.freed == before.array("words").nbytes // 2
    assert planned.nbytes == size - planned.freed
    left = planned.apply()
    assert not made.path.exists() and left.path != made.path
    assert check_chunks(left.path) > 0
    manifest = Entry.open(left.path).manifest
    assert manifest.key == digest(manifest.request)
    assert manifest.request == before.request | {"layers": [0, 3]}
    assert manifest.extra["reduced_from"] == before.key
    assert manifest.array("words").layers == (0, 3)
    for values, told in manifest.statistics.items():
        assert told["words"] == [before.statistics[values]["words"][at] for at in (0, 3)]
    assert torch.equal(rows(left, "words", [0, 3]), kept)
    assert torch.equal(rows(left, "tokens", None), tokens)
    assert left.examples.table.equals(table)
    with pytest.raises(OptionError, match=r"layer 1 is not stored; it holds layers \[0, 3\]"):
        left.arrays["words"].read(slice(0, 1), [1])


@pytest.mark.parametrize("gone", ["words", "tokens"])
def test_an_array_goes(plain, gone):
    kept = "tokens" if gone == "words" else "words"
    values = rows(plain, kept, None)
    left = Reduction.of(plain.path, layers=None, arrays=[gone]).apply()
    assert check_chunks(left.path) > 0
    assert list(left.arrays) == [kept] == left.manifest.request["keep"]
    assert torch.equal(rows(left, kept, None), values)
    starts = left.examples.row_start if gone == "words" else left.examples.token_start
    assert set(starts.tolist()) == {-1}
    with pytest.raises(EntryError, match=f"no array {gone!r}"):
        _ = left.arrays[gone]


def test_an_extraction_of_all_does_not_take_the_rest_for_it(inputs, plain, cache):
    keep = ("words", "tokens")
    left = Reduction.of(plain.path, layers="1,2", arrays=()).apply()
    fewer = extract(*inputs, cache, keep=keep, layers="0,3")
    assert fewer.path == left.path, "what asks for the rest finds it"
    again = extract(*inputs, cache, keep=keep)
    assert again.path == plain.path and again.arrays["words"].layers == (0, 1, 2, 3)
    assert Reduction.of(again.path, layers="1,2", arrays=()).apply().path == left.path
    assert not again.path.exists()


PLACES = (
    "probekit.extraction.maintenance.removal.Removable.remove",
    "probekit.base.replacing.shutil.rmtree",
    "probekit.extraction.maintenance.removal.orphaned_labels",
    "probekit.store.lock.EntryLock.release",
)
COMMANDS = (("path",), ("text",), ("text", "--layers", "0"), ("path", "--array", "tokens"))


@pytest.mark.parametrize(("place", "command"), [*zip(PLACES, COMMANDS, strict=True)])
def test_a_removal_that_is_killed_is_finished_by_the_same_command(
    inputs, cache, tmp_path, place, command
):
    shutil.copytree(cache, tmp_path / "whole")
    named, *wanted = command
    path = entry_in(cache).relative_to(cache)

    def remove(root):
        entry = [root / path] if named == "path" else inputs
        return run("cache", "rm", *entry, *wanted, "--yes", "--cache", root)

    assert remove(tmp_path / "whole").code == 0
    kill_at(place, 1, lambda: remove(cache))
    remove(cache)
    assert tree(cache) == tree(tmp_path / "whole")


@pytest.mark.parametrize(
    ("layers", "arrays", "says"),
    [
        ("all", ("tokens",), "nothing would be left"),
        (None, ("words", "tokens"), "nothing would be left"),
        ("9", (), "layer 9 does not exist"),
        ("1", ("words",), r"layer 1 is in no array that is left but tokens"),
        (None, ("cls",), "no array 'cls'"),
    ],
)
def test_what_cannot_go(plain, layers, arrays, says):
    with pytest.raises((OptionError, EntryError), match=says):
        Reduction.of(plain.path, layers=layers, arrays=arrays)
    assert check_chunks(plain.path) > 0


def test_a_killed_reduction_is_found_by_its_part(inputs, tmp_path):
    made = extract(*inputs, tmp_path, keep=("words",), limit=7)
    whole = Reduction.of(made.path, layers="0", arrays=())
    with interrupted_after(0, "copy_unit"):
        whole.apply()
    begun = whole.path.with_name(f"{whole.path.name}.partial")
    assert limit_of(begun) == 7
    assert set(select_folders([str(name) for name in inputs], tmp_path)) == {made.path, begun}
    assert limit_of(whole.apply().path) == 7


def test_room_is_asked_for_before(plain, monkeypatch):
    monkeypatch.setattr("probekit.store.files.free_bytes", lambda folder: 100)
    with pytest.raises(StorageError, match="has 100 B free, and what is left"):
        Reduction.of(plain.path, layers="0", arrays=()).apply()
    assert {path.name for path in plain.path.parent.iterdir() if path.is_dir()} == {
        plain.path.name,
        "labels",
    }


def test_the_command(inputs, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("cache", "rm", *inputs, "--layers", "1:3", "--array", "tokens")
    refusal = run(*words, text="n\n")
    assert refusal.code == 1 and plain.path.is_dir()
    asked = refusal.err.splitlines()[0]
    assert asked.startswith("Remove layers 1:3 and array tokens of cache/") and " of " in asked
    outcome = done(*words, "--yes")
    removing, removed = outcome.err.splitlines()
    assert removing.startswith("removing layers 1:3 and array tokens of cache/")
    (row,) = done("cache", "ls", "--json").rows
    assert (row["layers"], row["state"]) == (2, "complete")
    assert row["key"] in removed
    assert "match their checksums" in done("cache", "verify", *inputs).err
    done("train", *inputs, "--head", "last", "--epochs", "1", "--hold-out", "0.2")
