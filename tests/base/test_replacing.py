"""Files that take their place whole, and what a kill leaves beside them."""

import fcntl
import glob
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from probekit.base.replacing import matching, remove_left, replacing, standing_files, workshop
from probekit.extraction.maintenance.removal import find_stale
from probekit.store.entry import list_entries
from probekit.store.files import disk_bytes

LEFT = f".{'0' * 32}.probekit"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with replacing(path) as fresh:
        fresh.write_text("first")
        assert not path.exists() and fresh.name == path.name
    with pytest.raises(ValueError, match="half"), replacing(path) as fresh:
        fresh.write_text("sec")
        raise ValueError("half")
    assert path.read_text() == "first" and os.listdir(path.parent) == ["a.txt"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_kill_leaves_is_removed_by_the_next_writer(tmp_path, when):
    code = f"""
import os, signal
from pathlib import Path
from probekit.base.replacing import replacing
with replacing(Path({str(tmp_path / "a.txt")!r})) as fresh:
    if {when!r} == "after":
        fresh.write_text("torn")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    left.rename(tmp_path / LEFT)
    (tmp_path / f".{'1' * 32}.making").mkdir()
    with replacing(tmp_path / "b.txt") as fresh:
        fresh.write_text("whole")
    assert os.listdir(tmp_path) == ["b.txt"]


def test_whose_folder_is_taken_for_left_makes_another(tmp_path, monkeypatch):
    """Between the making of a folder and its lock another process may remove it."""
    make, made = Path.mkdir, list[Path]()

    def removed_at_first(folder, **options):
        make(folder, **options)
        if folder.suffix == ".making":
            made.append(folder)
            remove_left(tmp_path) if len(made) == 1 else None

    monkeypatch.setattr(Path, "mkdir", removed_at_first)
    with replacing(tmp_path / "a.txt") as fresh:
        fresh.write_text("whole")
    assert len(made) == 2 and os.listdir(tmp_path) == ["a.txt"]


def test_what_others_hold_or_call_otherwise_stays(tmp_path):
    names = [".probekit", ".0.probekit", f"{LEFT}.txt", LEFT[1:], "a.partial", "a.old"]
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / f".{'1' * 32}.probekit").touch()  # no folder
    (tmp_path / f".{'2' * 32}.probekit").symlink_to(tmp_path / "a.old")
    held = tmp_path / LEFT
    held.mkdir()
    os.utime(held, (0, 0))
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    before = sorted(os.listdir(tmp_path))
    with workshop(tmp_path):
        pass
    assert sorted(os.listdir(tmp_path)) == before
    os.close(descriptor)
    with workshop(tmp_path):
        pass
    assert sorted({*before} - {LEFT}) == sorted(os.listdir(tmp_path))


def test_files_stand_only_where_they_are_whole(tmp_path):
    with replacing(tmp_path / "runs" / "a.jsonl") as fresh:
        fresh.write_text("half")
        assert standing_files(tmp_path, ".jsonl") == []
    (tmp_path / "b.jsonl").touch()
    assert standing_files(tmp_path, ".jsonl") == [tmp_path / "b.jsonl", tmp_path / "runs/a.jsonl"]


@pytest.mark.parametrize("walk", [matching, list_entries, find_stale, remove_left])
def test_what_others_remove_during_a_walk_is_left_out(tmp_path, monkeypatch, walk):
    emptied = []

    def late(scan):
        def scan_late(folder="."):
            if not emptied and Path(folder).name == "task":
                emptied.append(folder)
                shutil.rmtree(folder)
            return scan(folder)

        return scan_late

    for name in ("model/task/train-12345678", "model/other/dev-12345678"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(os, "scandir", late(os.scandir))
    for kind in vars(glob).values():  # since Python 3.13, which keeps the function it found
        if isinstance(kind, type) and hasattr(kind, "scandir"):
            monkeypatch.setattr(kind, "scandir", staticmethod(late(kind.scandir)))
    pattern = ("*/*/*",) if walk is matching else ()
    walk(tmp_path / "model" / "task" if walk is remove_left else tmp_path, *pattern)
    assert emptied and (tmp_path / "model" / "other" / "dev-12345678").is_dir()


def test_a_file_that_others_remove_takes_no_room(tmp_path, monkeypatch):
    look, (kept, gone) = os.lstat, (tmp_path / "kept", tmp_path / "gone")
    for path in (kept, gone):
        path.write_bytes(b"x" * 5000)
    monkeypatch.setattr(os, "lstat", lambda path: look(f"{path}~" if path == str(gone) else path))
    assert disk_bytes(tmp_path) == look(kept).st_blocks * 512 > 0


def test_many_write_one_place_while_one_walks(tmp_path):
    path = tmp_path / "runs" / "a.jsonl"
    code = f"""
from pathlib import Path
from probekit.base.replacing import replacing
for number in range(100):
    with replacing(Path({str(path)!r})) as fresh:
        fresh.write_text("whole")
"""
    with replacing(path) as fresh:
        fresh.write_text("whole")
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    while any(writer.poll() is None for writer in writers):
        assert standing_files(tmp_path, ".jsonl") == [path]
    assert [writer.returncode for writer in writers] == [0] * 2
    assert os.listdir(path.parent) == ["a.jsonl"]
