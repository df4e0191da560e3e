"""The machine: devices, limits of memory, interrupts that wait, and free memory that goes back."""

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest
import torch

from probekit.base import machine
from probekit.base.machine import Heap, interrupts_held, keep_few_kernels, memory_left, pick_device
from probekit.errors import OptionError


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


@pytest.mark.parametrize(
    ("asked", "found"),
    [("auto", "cuda:1"), ("cuda", "cuda:1"), ("cuda:0", "cuda:0"), ("cpu", "cpu")],
)
def test_cuda_has_a_number(two_gpus, asked, found):
    assert pick_device(asked) == found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("cuda:2", "--device 'cuda:2': 2 CUDA devices are available"),
        ("gpu", "unknown --device 'gpu'. Write cpu, cuda or cuda:1"),
        ("mps", "--device mps has no float64"),
        ("meta", "--device 'meta' is not supported. Write cpu, cuda or cuda:1"),
        ("xpu:0", "--device 'xpu:0' is not supported"),
    ],
)
def test_what_is_no_device_is_refused(two_gpus, asked, message):
    with pytest.raises(OptionError, match=message):
        pick_device(asked)


def test_without_a_gpu_it_is_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == "cpu"


MB = 2**20


def write_group(folder, names, *, limit, used, cached):
    folder.mkdir(parents=True, exist_ok=True)
    limit_file, used_file, cached_names = names
    (folder / limit_file).write_text(f"{limit}\n")
    (folder / used_file).write_text(f"{used}\n")
    stat = dict(zip(cached_names, cached, strict=True)) | {"anon": used}
    (folder / "memory.stat").write_text("".join(f"{k} {v}\n" for k, v in stat.items()))


V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)
V2 = ("memory.max", "memory.current", ("active_file", "inactive_file"))


@pytest.mark.parametrize(
    ("listing", "place", "names"),
    [
        ("0::/job\n", "job", V2),
        ("5:cpu:/job\n3:memory:/job\n0::/\n", "memory/job", V1),
        # Docker lists the host's path, but mounts the container's own group at the root
        ("4:memory:/docker/1f3b\n", "memory", V1),
    ],
    ids=["version 2", "version 1", "the path outside"],
)
def test_a_limit(tmp_path, listing, place, names):
    groups = tmp_path / "cgroup"
    groups.write_text(listing)
    write_group(tmp_path / place, names, limit=100 * MB, used=70 * MB, cached=(20 * MB, 10 * MB))
    assert memory_left(groups, tmp_path) == 60 * MB


def test_the_tightest_group_above_counts(tmp_path):
    groups = tmp_path / "cgroup"
    groups.write_text("0::/user/job/step\n")
    write_group(tmp_path / "user", V2, limit=50 * MB, used=55 * MB, cached=(0, 0))
    write_group(tmp_path / "user/job", V2, limit=80 * MB, used=40 * MB, cached=(0, 0))
    write_group(tmp_path / "user/job/step", V2, limit="max", used=40 * MB, cached=(0, 0))
    assert memory_left(groups, tmp_path) == 0


def test_no_limit(tmp_path):
    groups = tmp_path / "cgroup"
    assert memory_left(groups, tmp_path) is None  # not Linux
    groups.write_text("0::/job\n")
    assert memory_left(groups, tmp_path) is None
    write_group(tmp_path / "job", V2, limit="max", used=1, cached=(0, 0))
    assert memory_left(groups, tmp_path) is None


def test_the_smaller_of_machine_and_container_is_free(monkeypatch):
    monkeypatch.setattr(machine, "memory_left", lambda: 5)
    assert machine.available_memory() == 5
    monkeypatch.setattr(machine, "memory_left", lambda: 2**62)
    assert 0 < machine.available_memory() <= psutil.virtual_memory().total


def test_the_first_interrupt_comes_at_the_end_of_the_block():
    before, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("the end")
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_comes_at_once():
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")


def test_an_error_in_the_block_goes_before():
    with pytest.raises(ValueError), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError


def test_other_threads_hold_nothing():
    def run():
        with interrupts_held():
            found.append(signal.getsignal(signal.SIGINT))

    found = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


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
