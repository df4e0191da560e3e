"""Label files that no entry needs any more."""

from pathlib import Path

from probekit.errors import EntryError
from probekit.store.labels import LabelFile, read_label_file
from probekit.store.layout import LABELS, REPLACED, asked_of, split_and_key


def orphaned_labels(task: Path) -> list[LabelFile]:
    """Return the label files of a task whose text no entry holds; links are not followed.

    Args:
        task: the task's folder in a cache.
    """
    held = _held(task)
    unknown = {split for split, text in held if text is None}
    files = _labels(task / LABELS)
    return [file for file in files if file.of not in held and file.split not in unknown]


def _held(task: Path) -> set[tuple[str, str | None]]:
    """Return split and text of every entry of a task: whole, unfinished or being replaced.

    The text is None where the folder does not say it (it is damaged): it may be any.
    """
    found = set()
    for folder in task.iterdir():
        named = split_and_key(folder.name.removesuffix(REPLACED))
        if named is not None and folder.is_dir():
            text = asked_of(folder).get("text")
            found.add((named[0], text if isinstance(text, str) else None))
    return found


def _labels(folder: Path) -> list[LabelFile]:
    """Return the files of a folder that prove to be label files."""
    found: list[LabelFile] = []
    if folder.is_symlink() or not folder.is_dir():
        return found
    for path in sorted(folder.glob("*.parquet")):
        if path.is_symlink():
            continue
        try:
            found.append(read_label_file(path))
        except EntryError:  # not provably ours
            continue
    return found
