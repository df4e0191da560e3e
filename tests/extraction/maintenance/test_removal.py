"""What `cache rm` removes: entries, whole or unfinished, and nothing else."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.base.fingerprint import canonical_json, digest
from probekit.errors import EntryNotFoundError, OptionError
from probekit.extraction.maintenance import Removable
from probekit.extraction.maintenance.removal import Stale
from probekit.store.layout import proven_key
from tests.cli.console import run
from tests.planted_texts import plant_texts

ASKED = {"weights": "w", "text": "t"}
KEY8 = digest(ASKED)[:8]


def tree(root: Path) -> dict[str, str]:
    """Return every file, folder and link below a folder, by its path from there."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path, content = Path(folder) / name, "folder"
            if path.is_symlink():
                content = f"link to {os.readlink(path)}"
            elif not path.is_dir():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(root))] = content
    return found


def manifest_of(request, **more):
    kept = {"arrays": [], "backend": "zarr"}
    return canonical_json({"format_version": 1, "request": request, **kept, **more})


def whole(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(text)
    (folder / "thesis.txt").write_text("years of work")
    return folder


def begun(folder: Path, text: str | None) -> Path:
    (folder / "building").mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    if text is not None:
        (folder / "building" / "plan.json").write_text(text)
    return folder


def hostile(root: Path) -> list[Path]:
    """Return folders that look like entries, or lead to what is none."""
    other = digest({"other": 1})[:8]
    entry = plant_texts(root / "cache").path
    elsewhere = whole(root / "elsewhere", "{}")
    link = root / f"link-{KEY8}"
    link.symlink_to(entry, target_is_directory=True)
    outwards = root / f"out-{other}"
    outwards.symlink_to(elsewhere, target_is_directory=True)
    dangling = root / f"gone-{other}"
    dangling.symlink_to(root / "nothing")
    file = root / f"file-{KEY8}"
    file.write_text(manifest_of(ASKED))
    home = root / "home"
    for name in (".ssh", ".config", "Documents"):
        (home / name).mkdir(parents=True)
    (home / ".ssh" / "id").write_text("secret")
    return [
        whole(root / "extension", json.dumps({"manifest_version": 3, "name": "Reader"})),
        whole(root / f"extension-{other}", json.dumps({"manifest_version": 3, "name": "Reader"})),
        whole(root / f"nothing-{digest(None)[:8]}", "null"),
        whole(root / f"nothing-{digest({})[:8]}", manifest_of({})),
        whole(root / f"list-{digest([1])[:8]}", manifest_of([1])),
        whole(root / f"train-{other}", manifest_of(ASKED)),
        whole(root / f"train-{KEY8}x", manifest_of(ASKED)), whole(root / KEY8, manifest_of(ASKED)),
        whole(root / f"page-{KEY8}", canonical_json({"request": ASKED, "url": "x"})),
        whole(root / f"nan-{other}", '{"request": {"x": NaN}}'),
        whole(root / f"deep-{other}", '{"request":' + "[" * 100_000),
        whole(root / f"cut-{KEY8}", manifest_of(ASKED)[:-5]),
        begun(root / "download.partial", None), begun(root / f"train-{KEY8}.partial", None),
        begun(root / f"dev-{KEY8}.partial", "{}"),
        begun(root / f"test-{other}.partial", manifest_of(ASKED)),
        whole(root / f"other-{KEY8}.partial", manifest_of(ASKED)),
        begun(root / f"other-{KEY8}", manifest_of(ASKED)), link, outwards, dangling, file, root,
        root / "cache", entry.parent, entry.parent.parent, entry / "features.zarr",
        entry / "manifest.json", home, home / ".ssh", root / "not-there-0123abcd",
    ]  # fmt: skip


def test_what_goes_while_it_is_listed_takes_no_room(tmp_path):
    assert Stale(tmp_path / "gone.lock", tmp_path / "gone", "a lock that is not held").nbytes == 0


def test_hostile_folders_stay(tmp_path, monkeypatch):
    folders = hostile(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    for path in folders:
        with pytest.raises((OptionError, EntryNotFoundError)):
            Removable.of(path)
        for words in (["--yes"], []):
            outcome = run("cache", "rm", str(path), *words, text="y\n")
            assert outcome.code == 1, (path, outcome.err)
            assert "Traceback" not in outcome.err
    assert tree(tmp_path) == before


def test_one_that_is_none_among_entries_stops_all(tmp_path):
    entry = plant_texts(tmp_path / "cache").path
    other = whole(tmp_path / f"train-{KEY8}x", manifest_of(ASKED))
    before = tree(tmp_path)
    outcome = run("cache", "rm", str(entry), str(other), "--yes")
    assert outcome.code == 1 and "no entry of that name" in outcome.err
    assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", ["whole", "begun"])
def test_entries_go_and_what_their_links_point_to_stays(tmp_path, kind):
    kept = whole(tmp_path / "kept", "{}")
    if kind == "whole":
        entry = plant_texts(tmp_path / "cache").path
    else:
        entry = begun(tmp_path / f"train-{KEY8}.partial", manifest_of(ASKED))
        (entry / "thesis.txt").unlink()
    (entry / "link").symlink_to(kept, target_is_directory=True)
    (entry / "building" / "units").mkdir(parents=True)
    (entry / "building" / "units" / "000000.json").hardlink_to(kept / "thesis.txt")
    outcome = run("cache", "rm", str(entry), "--yes")
    assert outcome.code == 0, outcome.err
    assert outcome.err.splitlines()[0].startswith(f"removing {entry} (")
    assert ("unfinished" in outcome.err) == (kind == "begun")
    assert not entry.exists()
    assert (kept / "thesis.txt").read_text() == "years of work"


names = st.sampled_from(
    [f"train-{KEY8}", f"train-{KEY8}.partial", KEY8, "train-00000000", "data", "x.partial"]
)
contents = st.sampled_from(
    [
        manifest_of(ASKED), manifest_of(ASKED)[:-1], manifest_of({**ASKED, "text": "u"}), "{}",
        "[]", "", '{"request": "train"}', '{"manifest_version": 3}',
    ]
)  # fmt: skip
places = st.sampled_from(["manifest.json", "building/plan.json", "plan.json", "a/manifest.json"])


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(
            names, st.lists(st.tuples(places, contents), max_size=3, unique_by=lambda x: x[0])
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda x: x[0],
    )
)
def test_only_what_its_name_and_request_prove_goes(tmp_path_factory, folders):
    root = tmp_path_factory.mktemp("any")
    proofs = {f"train-{KEY8}": "manifest.json", f"train-{KEY8}.partial": "building/plan.json"}
    for name, files in folders:
        (root / name).mkdir()
        for place, text in files:
            (root / name / place).parent.mkdir(exist_ok=True)
            (root / name / place).write_text(text)
    for name, files in folders:
        before = tree(root)
        try:
            Removable.of(root / name).remove()
        except OptionError:
            assert tree(root) == before
            proven = manifest_of(ASKED) == dict(files).get(proofs.get(name))
            assert not proven or {Path(place).parts[0] for place, _ in files} & {"a", "plan.json"}
        else:
            assert dict(files)[proofs[name]] == manifest_of(ASKED)
            gone, complete = [name], root / f"train-{KEY8}"
            if proven_key(complete):
                gone.append(f"{complete.name}/building")  # left by a kill: it goes with any lock
            kept = {p for p in before if not any(map(Path(p).is_relative_to, gone))}
            assert {p for p in tree(root) if ".lock" not in p} == {
                p for p in kept if ".lock" not in p
            }
    shutil.rmtree(root)


@pytest.mark.parametrize(
    "place",
    [
        "thesis.txt", "backbone/thesis.txt", "features.zarr/thesis.txt", "features.zarr/cls/c.txt",
        "building/thesis.txt", "building/units/thesis.txt",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["whole", "begun"])
def test_a_file_of_somebody_else_in_an_entry_stays_and_is_named(tmp_path, place, kind):
    if kind == "whole":
        entry = plant_texts(tmp_path / "cache").path
    else:
        entry = begun(tmp_path / f"train-{KEY8}.partial", manifest_of(ASKED))
        (entry / "thesis.txt").unlink()
        (entry / "manifest.json").write_text(manifest_of(ASKED, files={"examples.parquet": {}}))
    Removable.of(entry)
    file = entry / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("years of work")
    with pytest.raises(OptionError, match=f"holds {place}, which is not part of an entry"):
        Removable.of(entry)
    file.unlink()
    Removable.of(entry).remove()
    assert not entry.exists()
