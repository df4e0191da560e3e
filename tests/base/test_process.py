"""What lies free inside the process goes back to the system, or serves again; few kernels stay."""

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from probekit.base import machine
from probekit.base.machine import Heap, keep_few_kernels

MIB = 2**20
SMALL = 100_000  # bytes; glibc maps larger ones by themselves
COUNT, APART = 2_000, 20

glibc_only = pytest.mark.skipif(machine._glibc("malloc_trim") is None, reason="not glibc")


def resident():
    return psutil.Process().memory_info().rss


def scattered():
    """Take 200 MB in small pieces, and free all but some that lie between the others."""
    pieces = [b"\1" * SMALL for _ in range(COUNT)]
    return pieces[::APART]


@glibc_only
def test_what_is_free_between_what_is_used_goes_back(monkeypatch):
    monkeypatch.setattr(machine, "_ROOM", 64 * MIB)
    machine._glibc("malloc_trim")(0)  # nothing that is free already may serve
    tidied = Heap()
    tidied.trim()
    before = resident()
    kept = scattered()
    held = resident() - before
    assert held > 150 * MIB  # freed, but not given back
    tidied.trim()
    assert resident() - before < held / 2
    assert all(piece == b"\1" * SMALL for piece in kept)


def test_it_is_looked_for_after_the_process_has_grown_beyond_what_a_batch_needs(monkeypatch):
    grown = machine._ROOM
    sizes = [100, grown + 99, grown + 100, 500, grown + 499, grown + 500, 700]
    given_back = [0, 0, 1, 1, 1, 2, 2]
    called = []
    held = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=sizes[len(seen)] + 9, shared=9))
    monkeypatch.setattr(machine.psutil, "Process", lambda: held)
    monkeypatch.setattr(machine, "_glibc", lambda name: called.append)
    tidied, seen = Heap(), []
    for _ in sizes:
        tidied.trim()
        seen.append(len(called))
    assert seen == given_back


def test_without_glibc_nothing_is_done(monkeypatch):
    machine._glibc.cache_clear()

    class Other:
        def __init__(self, name):
            pass

    monkeypatch.setattr(machine.ctypes, "CDLL", Other)
    try:
        assert machine._glibc("malloc_trim") is None
        machine.keep_free_memory()
        monkeypatch.setattr(machine, "_ROOM", 0)
        tidied = Heap()
        for _ in range(3):
            tidied.trim()
    finally:
        machine._glibc.cache_clear()


@pytest.mark.parametrize("name", ["ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"])
def test_few_kernels_are_kept_unless_the_user_says_how_many(monkeypatch, name):
    monkeypatch.setenv(name, "")  # so that it is put back
    monkeypatch.delenv(name)
    keep_few_kernels()
    assert os.environ[name] == str(machine.KERNELS)
    monkeypatch.setenv(name, "7")
    keep_few_kernels()
    assert os.environ[name] == "7"


FREES = """
import ctypes
import resource
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # no huge pages: one fault for each 4 KiB
from probekit.base.machine import keep_free_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"1" * (40 * 2**20) for _ in range(4)]  # glibc maps them by default
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def fewest():
    for _ in range(3):
        faults()
    return min(faults() for _ in range(4))  # the system may take pages back meanwhile
print(fewest())
keep_free_memory()
print(fewest())
"""


@glibc_only
def test_what_a_step_frees_serves_the_next_one():
    own = {name: value for name, value in os.environ.items() if name not in machine.MEMORY_SETTINGS}
    words = [sys.executable, "-c", FREES]
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 5_000 and after < 500


@pytest.mark.parametrize("name", machine.MEMORY_SETTINGS)
def test_the_users_own_setting_stays(name, monkeypatch):
    for other in machine.MEMORY_SETTINGS:
        monkeypatch.delenv(other, raising=False)
    changed = []
    monkeypatch.setattr(machine, "_glibc", lambda wanted: lambda *option: changed.append(option))
    monkeypatch.setenv(name, str(MIB))
    machine.keep_free_memory()
    assert not changed
    monkeypatch.delenv(name)
    machine.keep_free_memory()
    assert changed
