"""Entries that are given themselves, as `extract` returns them: do they belong together?"""

from collections.abc import Sequence

from probekit.errors import EntryNotFoundError, OptionError
from probekit.store import Entry


def entries_by_split(entries: Sequence[Entry], fit_on: str) -> dict[str, Entry]:
    """Return entries of one model and task by their split; that which is fitted on is ``train``.

    Args:
        entries: at least one, one per split.
        fit_on: the split that takes the place of train.

    Raises:
        OptionError: there is none, they are of several models or tasks, or two are of one split.
        EntryNotFoundError: none is of the split to fit on.
    """
    if not entries or not all(isinstance(entry, Entry) for entry in entries):
        raise OptionError("expected a model and a task, or entries; found neither.")
    first = entries[0]
    found: dict[str, Entry] = {}
    for entry in entries:
        _check_same(first, entry)
        if entry.manifest.split in found:
            raise OptionError(
                f"{found[entry.manifest.split].path} and {entry.path} are of one split; give one "
                "entry per split."
            )
        found[entry.manifest.split] = entry
    if fit_on not in found:
        raise EntryNotFoundError(
            f"no entry of split {fit_on!r} was given, only of {', '.join(found)}. Give one, or fit "
            f"on another: fit_on={next(iter(found))!r}."
        )
    others = {name: one for name, one in found.items() if name not in ("train", fit_on)}
    return {"train": found[fit_on], **others}


def _check_same(first: Entry, entry: Entry) -> None:
    """Refuse an entry of another model or task."""
    same_model = entry.manifest.request["model"] == first.manifest.request["model"]
    if not same_model or entry.manifest.task != first.manifest.task:
        raise OptionError(
            f"{first.path} and {entry.path} are of different models or tasks; give entries of one "
            "model and task, one per split."
        )
