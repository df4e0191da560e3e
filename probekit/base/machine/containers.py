"""Memory that a control group (a container, a batch job) still lets this process use.

The kernel's own figure of free memory is that of the whole machine; a process that believes it in
a container of a few gigabytes is killed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Files:
    """Names of one version of the kernel's control groups."""

    limit: str
    used: str
    cached: tuple[str, ...]


_VERSION_1 = _Files(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)
_VERSION_2 = _Files("memory.max", "memory.current", ("active_file", "inactive_file"))


def memory_left(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that the tightest group above this process leaves; None without a limit.

    What the group's files hold in the page cache counts as free, as it does in the kernel's own
    figure for the machine: it is dropped when memory is wanted.

    Args:
        groups: the kernel's list of the process's groups.
        root: where control groups are mounted.
    """
    if not groups.exists():  # not Linux
        return None
    left = [
        _left(folder, files)
        for folder, files in _folders(groups.read_text(encoding="utf-8"), root)
        if (folder / files.limit).is_file()
    ]
    return min((found for found in left if found is not None), default=None)


def _folders(listing: str, root: Path) -> Iterator[tuple[Path, _Files]]:
    """Yield the groups of a process and those above them, each with its version's files."""
    for line in listing.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, files = root, _VERSION_2
        elif "memory" in controllers.split(","):
            top, files = root / "memory", _VERSION_1
        else:
            continue
        group = top / path.lstrip("/")
        yield group, files
        for parent in group.relative_to(top).parents:
            yield top / parent, files


def _left(folder: Path, files: _Files) -> int | None:
    limit = (folder / files.limit).read_text(encoding="utf-8").strip()
    if limit == "max":
        return None
    used = int((folder / files.used).read_text(encoding="utf-8"))
    lines = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
    stat = dict(line.split() for line in lines)
    cached = sum(int(stat[name]) for name in files.cached)
    return max(int(limit) - used + cached, 0)
