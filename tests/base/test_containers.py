"""Memory limits of control groups, read from files laid out as the kernel lays them out."""

import psutil
import pytest

from probekit.base import machine
from probekit.base.machine import memory_left

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
