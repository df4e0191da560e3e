"""Shards of an extraction leave the bytes of one process: in any order, killed, apart, at once."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import pytest

from probekit.base.fingerprint import with_checksum
from probekit.errors import EntryError, EntryLockedError, OptionError
from probekit.extraction import ExtractTarget, Shard
from probekit.extraction.maintenance import Removable, check_chunks, list_cache, merge_shards
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from probekit.store.labels import label_columns
from probekit.store.lock import EntryLock
from tests.extraction.conftest import make_small
from tests.extraction.extracted import entries_of, interrupted_after
from tests.extraction.maintenance.conftest import flip
from tests.extraction.planned import plan_of
from tests.extraction.test_kill import digests, marked
from tests.forks import begin, ended, kill_at

KEY = "0" * 64
FINISHED = "*/*/train-*[0-9a-f]"
run = partial(entries_of, dtype="auto")


def the_only(cache, pattern=FINISHED):
    (folder,) = cache.glob(pattern)
    return folder


def the_partial(cache):
    return the_only(cache, "*/*/train-*.partial")


def fresh_bytes(cache):
    check_chunks(the_only(cache))
    return digests(cache)


@pytest.fixture
def small_units(monkeypatch):
    """Some eight of them."""
    make_small(monkeypatch, 7_000)


@pytest.fixture(scope="module")
def written(bert, corpus, tmp_path_factory):
    """A function to a cache that one process, or a shard, wrote; not to be changed."""

    @cache
    def cache_of(shard=None, **options):
        root = tmp_path_factory.mktemp("written")
        with pytest.MonkeyPatch.context() as patch:
            make_small(patch, 7_000)
            run(bert, corpus, root, shard=shard, **options)
        return root

    return cache_of


@pytest.fixture
def halves(written, tmp_path):
    """A function to two caches, each with half of the units of one entry."""
    return lambda **options: [
        shutil.copytree(written(f"{i}/2", **options), tmp_path / str(i)) for i in (1, 2)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_every_unit_is_one_shards_and_none_has_far_more_than_its_part(count):
    plan = plan_of(60_000, 100, 1024, 24, ["cls"])
    many = plan.units
    assert len(many) > 5
    shares = [Shard(i + 1, count).units_of(plan, KEY) for i in range(count)]
    assert sorted(unit.index for share in shares for unit in share) == [u.index for u in many]
    sizes = [sum(map(plan.unit_tokens, share)) for share in shares]
    largest = max(map(plan.unit_tokens, many))
    # Graham: the last unit that the fullest shard got came to the shard that had least
    assert max(sizes) <= plan.tokens / count + largest
    other = [Shard(i + 1, count).units_of(plan, "1" * 64) for i in range(count)]
    assert sorted(map(len, shares)) == sorted(map(len, other)), "another key turns them"


def test_the_units_of_entries_of_one_unit_are_different_shards():
    plan = plan_of(3, 10, 8, 1, ["cls"])
    assert len(plan.units) == 1
    assert not Shard(10**13, 10**13).units_of(plan, KEY)
    first = {key: [bool(Shard(i, 4).units_of(plan, key)) for i in (1, 2, 3, 4)].index(True)
             for key in ("0" * 64, "0" * 7 + "1" * 57, "0" * 7 + "2" * 57)}  # fmt: skip
    assert sorted(first.values()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0/4", r"--shard 0/4: shards of 4 are 1/4 to 4/4, for which .* --array=1-4\."),
        ("5/4", r"shards of 4 are 1/4 to 4/4\."), ("1/0", "shards of 0"),
        ("2", "expected which of how many, such as 2/4"), ("a/b", "expected which of how many"),
        ("-1/4", "expected which of how many"), ("1/4/2", "expected which of how many"),
    ],
)  # fmt: skip
def test_shards_that_there_are_not(text, says):
    with pytest.raises(OptionError, match=says):
        Shard.parse(text)


@pytest.mark.parametrize(("backend", "dtype"), [("zarr", "auto"), ("hdf5", "int8")])
def test_any_order_leaves_the_bytes_of_one_process(
    bert, corpus, tmp_path, small_units, written, backend, dtype, caplog
):
    options = {"format": backend, "dtype": dtype}
    caplog.set_level("INFO", "probekit")
    shard = partial(run, bert, corpus, tmp_path, **options)
    assert shard(shard="3/3") == []
    assert "train, shard 3/3: done." in caplog.text
    assert "units are still missing" in caplog.text
    assert shard(shard="1/3") == shard(shard="1/3") == [], "a shard that is done does no harm"
    (entry,) = shard(shard="2/3")
    assert label_columns(entry) == ["2"]
    assert fresh_bytes(tmp_path) == digests(written(**options))
    assert [row["state"] for row in list_cache(tmp_path)] == ["complete"], "no lock is left"
    assert [e.path for e in shard(shard="1/3")] == [entry.path]


def test_more_shards_than_units(bert, corpus, tmp_path):
    """Of one unit, two shards have nothing to do; whoever has it completes the entry."""
    *_, (entry,) = (run(bert, corpus, tmp_path, ["dev"], shard=f"{i}/3") for i in (1, 2, 3))
    check_chunks(entry.path)


def test_processes_at_once_one_of_them_killed(many_units, tmp_path):
    at = partial(run, *many_units, format="hdf5")
    at(tmp_path / "whole")
    shard = partial(at, tmp_path / "shards")
    others = [begin(partial(shard, shard=f"{i}/3")) for i in (2, 3)]
    kill_at("probekit.store.codec.checksum", 20, partial(shard, shard="1/3"))
    assert [ended(child) for child in others] == [0, 0]
    assert not list((tmp_path / "shards").glob(FINISHED)), "what the killed one left is missing"
    shard(shard="1/3")
    assert fresh_bytes(tmp_path / "shards") == digests(tmp_path / "whole")


def test_shards_that_finish_at_once_seal_once(bert, corpus, tmp_path, small_units, monkeypatch):
    """Two wait for each other before they join."""
    sealed, together = [], threading.Barrier(2)
    complete, join = EntryBuilder.complete, EntryBuilder.join
    monkeypatch.setattr(EntryBuilder, "complete", lambda *a: sealed.append(1) or complete(*a))
    monkeypatch.setattr(EntryBuilder, "join", lambda builder: together.wait() + 1 and join(builder))
    shard = partial(run, bert, corpus, tmp_path)
    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(lambda number: shard(shard=f"{number}/2"), (1, 2))]
    assert len(sealed) == 1
    assert len(found[0] + found[1]) == 2, "both see the entry: each came after the last unit"
    check_chunks(the_only(tmp_path))


def test_who_may_work_beside_a_shard(bert, corpus, tmp_path, small_units):
    with interrupted_after(1):
        run(bert, corpus, tmp_path, shard="1/2")
    entry = the_partial(tmp_path).with_suffix("")
    (lock := EntryLock(entry, Shard(1, 2).place)).for_share()
    held = f"shard 1/2 of {entry} is being written by process {os.getpid()}"
    store = the_partial(tmp_path) / "features.zarr" / "zarr.json"
    whole = store.read_text()
    store.write_text("{")  # nobody begins afresh what others write
    with pytest.raises(EntryLockedError, match=held):
        run(bert, corpus, tmp_path, shard="2/2")
    assert marked(tmp_path) == 1
    store.write_text(whole)
    for shard in ("1/2", "1/3", None):
        with pytest.raises(EntryLockedError, match=held):
            run(bert, corpus, tmp_path, shard=shard)
    for touch in (Removable.of(the_partial(tmp_path)).remove, lambda: merge_shards(tmp_path)):
        with pytest.raises(EntryLockedError, match=held):
            touch()
    assert run(bert, corpus, tmp_path, shard="2/2") == []
    lock.release()
    with EntryLock(entry), pytest.raises(EntryLockedError, match="is being written by process"):
        run(bert, corpus, tmp_path, shard="1/2")
    (whole,) = run(bert, corpus, tmp_path, shard="2/3") or run(bert, corpus, tmp_path)
    check_chunks(whole.path)


def test_one_process_and_shards_go_on_from_each_other(bert, corpus, tmp_path, small_units, written):
    with interrupted_after(1):
        run(bert, corpus, tmp_path)
    with pytest.raises(OptionError, match=r"holds nothing unfinished that `extract --shard` began"):
        merge_shards(tmp_path)
    assert run(bert, corpus, tmp_path, shard="1/2") == []
    run(bert, corpus, tmp_path)
    assert fresh_bytes(tmp_path) == digests(written(format="zarr"))


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_caches_of_their_own_are_merged(halves, tmp_path, written, backend):
    roots, target = halves(format=backend), tmp_path / "target"
    with pytest.raises(EntryError, match=r"\d of \d+ units are in none of the folders \(first: "):
        merge_shards(target, roots[:1])
    with pytest.raises(EntryError, match="is unfinished"):
        Entry.open(roots[0] / the_partial(roots[0]).relative_to(roots[0]).with_suffix(""))
    before = [sorted(map(str, root.rglob("*"))) for root in roots]
    (entry,) = merge_shards(target, [the_partial(root) for root in roots])
    assert fresh_bytes(target) == digests(written(format=backend))
    assert label_columns(entry) == ["2"]
    assert [sorted(map(str, root.rglob("*"))) for root in roots] == before, "sources stay"
    assert merge_shards(target, roots)[0].path == entry.path, "again is no harm"


def test_a_merge_of_what_one_cache_holds(bert, corpus, tmp_path, small_units, written):
    """The last shard is killed between its last unit and the seal."""
    run(bert, corpus, tmp_path, shard="1/2")
    with interrupted_after(0, "join"):
        run(bert, corpus, tmp_path, shard="2/2")
    merge_shards(tmp_path)
    assert fresh_bytes(tmp_path) == digests(written(format="zarr"))


def test_a_merge_that_lacked_an_entry_of_one_unit_is_made_again(bert, corpus, tmp_path):
    made = {tmp_path / i: run(bert, corpus, tmp_path / i, shard=f"{i}/2") for i in ("1", "2")}
    begun, whole = sorted(made, key=lambda root: len(made[root]))
    with pytest.raises(EntryError, match="1 of 1 units are in none of the folders"):
        merge_shards(tmp_path / "target", [begun])
    (entry,) = merge_shards(tmp_path / "target", [begun, whole])
    assert entry.manifest.key == made[whole][0].manifest.key
    assert [row["state"] for row in list_cache(tmp_path / "target")] == ["complete"]


def test_a_chunk_that_is_damaged_is_not_merged(halves, tmp_path):
    roots, target = halves(format="zarr"), tmp_path / "target"
    chunk = sorted(the_partial(roots[1]).glob("features.zarr/words/c.*"))[0]
    flip(chunk, 0)
    with pytest.raises(EntryError, match=str(chunk)):
        merge_shards(target, roots)
    assert not list(target.glob(FINISHED))
    flip(chunk, 0)
    check_chunks(merge_shards(target, roots)[0].path)


def test_shards_of_other_requests_are_not_merged(written, tmp_path):
    for options, says in (
        ({"layers": "0,1"}, r"layers \[0, 1, 2, 3\] and \[0, 1\]\."),
        ({"limit": 30}, r"limit None and 30\."),
    ):
        other = the_partial(written("2/2", **options))
        with pytest.raises(EntryError, match=f"are from different extractions: {says}"):
            merge_shards(tmp_path / "target", [the_partial(written("1/2", format="zarr")), other])
        assert not (tmp_path / "target").exists()


MARKS = {
    "another array": lambda mark: mark["chunks"][0].__setitem__(0, "../../other"),
    "another row": lambda mark: mark["chunks"][0].__setitem__(1, 10**6),
    "below zero": lambda mark: mark["chunks"][0].__setitem__(2, -1),
    "another size": lambda mark: mark["chunks"][0].__setitem__(3, 1),
    "no statistics": lambda mark: mark.__setitem__("stats", {}),
    "other layers": lambda mark: mark["stats"]["statistics"]["words"].__setitem__("max_abs", [1]),
    "text": lambda mark: mark["stats"].__setitem__("computed", "x"),
}


@pytest.mark.parametrize("what", MARKS)
def test_marks_of_a_stranger(halves, tmp_path, what):
    roots = halves(format="zarr")
    file = sorted(the_partial(roots[1]).glob("building/units/*.json"))[0]
    mark = json.loads(file.read_text())
    del mark["checksum"]
    MARKS[what](mark)
    file.write_text(json.dumps(with_checksum(mark)))
    with pytest.raises(EntryError, match=r"claims to have written|does not say how its rows"):
        merge_shards(tmp_path / "target", roots)
    assert not list((tmp_path / "target").glob(FINISHED))


@pytest.mark.parametrize(
    ("backend", "suffixes"), [("zarr", (".json", ".parquet")), ("hdf5", ".h5")]
)
def test_a_bit_of_what_the_first_shard_laid_down_is_never_sealed(
    bert, corpus, tmp_path, small_units, written, backend, suffixes
):
    first = written("1/2", format=backend)
    begun = the_partial(first)
    laid = [file for file in begun.rglob("*") if file.is_file() and "shards" not in file.parts]
    names = {file.name: file.relative_to(begun) for file in laid if file.name.endswith(suffixes)}
    if backend == "zarr":
        expected = {"manifest.json", "config.json", "laid.json", "sums.json", "examples.parquet"}
        assert expected <= names.keys()
    for number, name in enumerate(names.values()):
        copy = shutil.copytree(first, tmp_path / f"{number}")
        flip(the_partial(copy) / name, 100 + 37 * number)
        shard = partial(run, bert, corpus, copy, format=backend)
        try:
            assert shard(shard="2/2") or shard(shard="1/2")  # of whose units a mark may be lost
        except EntryError as error:
            assert str(name) in str(error) or "are finished" in str(error), error
            assert not list(copy.glob(FINISHED))
        else:
            assert fresh_bytes(copy) == digests(written(format=backend)), name


def test_what_shards_cannot_do(tmp_path):
    (tmp_path / "empty").mkdir()
    for source in ("missing", "empty"):
        with pytest.raises(OptionError, match=f"{source}: expected a cache, or an entry, that"):
            merge_shards(tmp_path / "target", [tmp_path / source])
    for option in ("overwrite", "restart"):
        with pytest.raises(OptionError, match=f"--shard 1/2 with --{option}: it could delete"):
            ExtractTarget(model="m", task="conll", shard=Shard(1, 2), **{option: True})
