"""Files are whole on the disk, past the page cache or through it."""

import errno
import mmap
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from probekit.store import files as store_files
from probekit.store.files import WholeFiles

PAGES = 3 * mmap.PAGESIZE
SIZES = (0, 1, mmap.PAGESIZE - 1, mmap.PAGESIZE, PAGES, PAGES + 7)

needs_uncached = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux writes past the page cache"
)


def content(size, seed=0):
    return bytes((seed + i * i) % 251 for i in range(size))


@pytest.fixture
def uncached(tmp_path):
    """A folder on a file system that writes past the page cache.

    Some take the flag and keep the bytes in memory all the same.
    """
    try:
        descriptor = os.open(tmp_path / "try", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        try:
            os.write(descriptor, mmap.mmap(-1, mmap.PAGESIZE))
        finally:
            os.close(descriptor)
        if in_page_cache(tmp_path / "try", mmap.PAGESIZE):
            pytest.skip(f"the file system of {tmp_path} has O_DIRECT, and does not write past")
    except OSError as error:
        pytest.skip(f"the file system of {tmp_path} has no O_DIRECT ({error.strerror})")
    return tmp_path


def in_page_cache(file, size):
    """Say whether a read that must not wait for the disk finds anything."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.preadv(descriptor, [bytearray(size)], 0, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_holds_what_was_written(tmp_path, size):
    file, before = tmp_path / "chunk", content(2 * PAGES, seed=3)
    for at in (None, 0, 5, mmap.PAGESIZE):  # a part leaves the rest of a file
        file.write_bytes(before)
        WholeFiles().write(file, memoryview(content(size)), at=at)
        whole = before[:at] + content(size) + before[at + size :] if at is not None else None
        assert file.read_bytes() == (whole or content(size))
    WholeFiles().write(file, memoryview(b"end"), at=3 * PAGES)
    assert file.read_bytes()[2 * PAGES :] == bytes(PAGES) + b"end"


@needs_uncached
def test_threads_do_not_share_room(uncached):
    files, start = WholeFiles(), threading.Barrier(4)

    def work(number):
        start.wait()
        for i in range(number, 40, 4):
            files.write(uncached / f"{i}", memoryview(content(PAGES, seed=i)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for i in range(40):
        assert (uncached / f"{i}").read_bytes() == content(PAGES, seed=i)


@needs_uncached
def test_whole_pages_leave_the_page_cache_alone(uncached):
    file = uncached / "chunk"
    WholeFiles().write(file, memoryview(content(PAGES)))
    assert not in_page_cache(file, PAGES)
    file.read_bytes()
    assert in_page_cache(file, PAGES)


@needs_uncached
def test_only_bytes_that_begin_within_a_page_are_copied(uncached):
    memory = mmap.mmap(-1, PAGES + 2)
    memory[:] = content(PAGES + 2)
    for start, copied in ((0, False), (2, True)):
        files = WholeFiles()
        part = memoryview(memory)[start : start + PAGES]
        files.write(uncached / "chunk", part)
        assert (uncached / "chunk").read_bytes() == bytes(part)
        assert (files._room is not None) == copied


@needs_uncached
@pytest.mark.parametrize(
    ("call", "fake"),
    [
        (
            "open",
            lambda real, path, flags, *a: (
                refuse(errno.EINVAL, path) if flags & os.O_DIRECT else real(path, flags, *a)
            ),
        ),
        ("write", lambda real, *_: refuse(errno.EINVAL)),
        ("write", lambda real, descriptor, data: real(descriptor, data[: mmap.PAGESIZE])),
    ],
    ids=["open", "write", "short"],
)
def test_a_file_system_that_cannot_is_written_through_the_cache(uncached, monkeypatch, call, fake):
    monkeypatch.setattr(store_files.os, call, partial(fake, getattr(os, call)))
    WholeFiles().write(uncached / "chunk", memoryview(content(PAGES)))
    assert (uncached / "chunk").read_bytes() == content(PAGES)


def refuse(number, path=""):
    raise OSError(number, os.strerror(number), str(path))


@needs_uncached
def test_other_errors_are_raised(uncached, monkeypatch):
    monkeypatch.setattr(store_files.os, "write", lambda *_: refuse(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        WholeFiles().write(uncached / "chunk", memoryview(content(PAGES)))
    with pytest.raises(FileNotFoundError):
        WholeFiles().write(uncached / "none" / "chunk", memoryview(content(PAGES)))
