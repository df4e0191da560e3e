"""What is left over in a cache is listed, and goes with `cache rm --stale`; nothing else does."""

import json
import shutil

import pytest

from probekit.base.fingerprint import canonical_json
from probekit.extraction.maintenance import Removable, find_stale
from probekit.store.entry import Entry
from probekit.store.labels import write_labels
from probekit.store.layout import labels_folder
from probekit.store.lock import EntryLock
from probekit.store.manifest import read_manifest
from tests.cli.console import done, refused, run
from tests.extraction.maintenance.test_removal import tree
from tests.planted_texts import plant_texts


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant_texts(tmp_path / "cache", split="train", count=5)
    return tmp_path / "cache"


@pytest.fixture
def entry(root):
    return entry_of(root)


def entry_of(root):
    return next(root.glob("*/*/train-????????"))


def leave_over(root):
    """Leave everything over that can be; return the paths of what no entry needs."""
    entry = entry_of(root)
    gone = plant_texts(root, split="dev", count=5).path
    manifest = json.loads((entry / "manifest.json").read_text())
    plan = {name: manifest[name] for name in ("request", "arrays", "backend")}
    (entry / "building" / "units").mkdir(parents=True)
    (entry / "building" / "plan.json").write_text(canonical_json(plan))
    shutil.copytree(entry, f"{entry}.replaced", ignore=shutil.ignore_patterns("building"))
    shutil.copytree(entry, f"{entry}.partial", ignore=shutil.ignore_patterns("building"))
    shutil.rmtree(gone)
    owner = {"host": "gone", "pid": 1, "started": "2026-01-01T00:00:00+00:00"}
    (gone.parent / f"{gone.name}.lock.json").write_text(json.dumps(owner))
    labels = list(labels_folder(entry).glob("dev-label-*.parquet"))
    return {
        *(f"{entry}{end}" for end in (".replaced", ".partial", "/building")),
        *(f"{gone}{end}" for end in (".lock", ".lock.json")),
        *map(str, labels),
    }


def test_what_is_left_over_is_listed_and_goes(root):
    before = tree(root)
    expected = leave_over(root)
    assert {str(stale.path) for stale in find_stale(root)} == expected and len(expected) == 6
    listed = done("cache", "ls", "--json").rows
    states = [row["state"] for row in listed if row["state"].startswith("left over: ")]
    assert len(states) == 6 and "complete" in [row["state"] for row in listed]
    outcome = done("cache", "ls")
    assert "2 entries, " in outcome.err and "; 6 left over, " in outcome.err
    assert "`probekit cache rm --stale` removes them" in outcome.err
    refusal = run("cache", "rm", "--stale", text="n\n")
    assert refusal.code == 1 and "Remove all 6 (" in refusal.err
    assert all(f"{path[len(str(root.parent)) + 1 :]}: " in refusal.err for path in expected)
    assert {str(stale.path) for stale in find_stale(root)} == expected
    outcome = done("cache", "rm", "--stale", "--yes")
    assert len([line for line in outcome.err.splitlines() if line.startswith("removed ")]) == 6
    assert find_stale(root) == []
    assert tree(root) == before
    assert done("cache", "rm", "--stale", "-y").err == "nothing is left over in cache.\n"


def test_an_entry_that_was_moved_away_is_none_of_it(root, entry):
    """Killed between two renames: it is the only one there is."""
    entry.rename(f"{entry}.replaced")
    assert find_stale(root) == []
    assert [row["state"] for row in done("cache", "ls", "--json").rows] == ["complete"]
    assert Entry.open(entry).manifest.split == "train"


def test_what_is_held_is_left_alone(root, entry):
    expected = leave_over(root)
    dev = next(root.glob("*/*/dev-*.lock"))
    locks = [EntryLock(entry), EntryLock(dev.with_name(dev.name.removesuffix(".lock")))]
    outcome = done("cache", "rm", "--stale", "--yes")
    for lock in locks:
        lock.release()
    assert outcome.err.count("left alone, since it is held") == 5
    assert outcome.err.count("removed ") == 1, "labels need no lock"
    assert {path for path in expected if "/labels/" not in path} >= {
        str(stale.path) for stale in find_stale(root)
    }


def test_an_unfinished_entry_is_not_left_over(root, entry):
    manifest = json.loads((entry / "manifest.json").read_text())
    plan = {name: manifest[name] for name in ("request", "arrays", "backend")}
    entry.rename(f"{entry}.partial")
    building = entry.with_name(f"{entry.name}.partial") / "building"
    building.mkdir()
    (building / "plan.json").write_text(canonical_json(plan))
    assert find_stale(root) == []


def more_labels(entry, split, text):
    return write_labels(
        labels_folder(entry), split, "pos", ["a"], [["x"]],
        text=text, kind="tagging", metric="accuracy", fingerprint="0" * 64,
    )  # fmt: skip


def test_labels_of_a_text_that_has_an_entry_stay(root, entry):
    text = read_manifest(entry).request["text"]
    more_labels(entry, "train", text)
    assert find_stale(root) == []
    others = {more_labels(entry, "dev", text), more_labels(entry, "train", "another")}
    assert {stale.path for stale in find_stale(root)} == others
    (entry / "manifest.json").write_text("{")  # of what text it is, nobody knows now
    assert {stale.path.name[:3] for stale in find_stale(root)} == {"dev"}


def test_labels_and_locks_go_with_the_last_entry_of_their_text(root, entry):
    own = more_labels(entry, "train", read_manifest(entry).request["text"])
    other = more_labels(entry, "train", "another")
    twin = shutil.copytree(entry, entry.with_name("train-" + "0" * 8))
    Removable.of(entry).remove()
    assert own.exists() and other.exists(), "the other entry of the text needs them"
    twin.rename(entry)
    Removable.of(entry).remove()
    assert not own.exists() and other.exists() and not list(root.glob("*/*/*.lock*"))


def test_what_is_not_provably_probekits_stays(root, tmp_path):
    """Names alone prove nothing, and what a link leads to is elsewhere."""
    leave_over(shutil.copytree(root, tmp_path / "linked"))
    task = next(root.glob("*/*"))
    entry = next(task.glob("train-????????"))
    other = "0123abcd"
    for name in (f"train-{other}.replaced", f"{entry.name}x.replaced", f"train-{other}.partial"):
        (task / name).mkdir()
        (task / name / "thesis.txt").write_text("years of work")
    (task / f"train-{other}.replaced" / "manifest.json").write_text("{}")
    replaced = task / f"{entry.name}.replaced"
    replaced.mkdir()
    (replaced / "manifest.json").write_text('{"request": {"other": 1}}')
    (task / f"notes-{other}.lock").write_text("not empty")
    (task / f"notes-{other}.lock.json").write_text('{"pid": 1}')
    for name in ("poetry.lock", ".lock"):
        (task / name).touch()
    (task / "labels" / "dev-mine-00000000.parquet").write_bytes(b"no parquet")
    (task / "labels" / "mine.txt").write_text("mine")
    (entry / "building").mkdir()
    (entry / "building" / "plan.json").write_text("{}")
    elsewhere = shutil.copytree(entry, tmp_path / "elsewhere")
    (task / f"dev-{other}.replaced").symlink_to(elsewhere)
    (task / f"dev-{other}.lock").symlink_to(tmp_path / "nothing")
    (root / "model").symlink_to(tmp_path / "linked" / task.parent.name)
    before = tree(tmp_path)
    assert find_stale(root) == []
    assert "nothing is left over" in done("cache", "rm", "--stale", "--yes").err
    assert tree(tmp_path) == before


def test_stale_is_for_the_whole_cache(root):
    for words in (("x",), ("--layers", "1"), ("--array", "tokens")):
        assert "--stale is for all of the cache" in refused("cache", "rm", "--stale", *words)
    assert "say which ENTRY" in refused("cache", "rm")
