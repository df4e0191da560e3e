"""Find the one entry that a command means, or say what to type."""

import difflib
import logging
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.kinds import ARRAYS, EXAMPLES_IN_MEMORY, TOKENS, keep_and_points
from probekit.base.layers import RESID_POST
from probekit.base.notices import info_once, warn_once
from probekit.base.registry import PathName, typed_name
from probekit.errors import EntryNotFoundError
from probekit.store.entry import Entry, EntryFolder, list_entries
from probekit.store.layout import model_slug
from probekit.store.manifest import Manifest
from probekit.store.parted import Marks, PartedSplit, parted_splits, read_marks

logger = logging.getLogger(__name__)

_HOLDS = ("keep", "layers")  # options that say how much of the same an entry holds
_AS_IT_IS = {"dtype", "format"}  # options whose value says what it is
_TOKENS = {None: "no tokens of these layers", "all": "all tokens"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Whose entries are meant.

    Attributes:
        model: the model as the user types it; it need not exist any more.
        task: the task as the user types it.
        slug: the task's folder name.
        identity: identity of the model that lies at the path ``model``; None where none does, and
            the name alone decides.
        at: the file or folder that ``model`` is where that tells no identity: entries that were
            extracted from there are meant; None where none is.
        text: for the user's own files, the fingerprint of a split's first N examples (of all,
            for None), or None where there is no such split; entries are found by it, whatever
            the files are called. Of a split that is read in parts it is the hash of its source,
            unless it is to be read at once, as earlier versions did.
        typed: options that say what the task is, for the command in a message.
    """

    model: str
    task: str
    slug: str
    identity: Mapping[str, Any] | None = None
    at: Path | None = None
    text: Callable[[str, int | None, bool], str | None] | None = None
    typed: Sequence[str] = ()

    def of_model(self, folders: Sequence[EntryFolder]) -> list[EntryFolder]:
        """Return the folders that hold, or will hold, entries of the model.

        A damaged one goes by its folder's name.
        """
        slug = model_slug(self.model)

        def is_of(folder: EntryFolder) -> bool:
            made = None if self.identity is None else folder.asked.get("model")
            same = made == self.identity if isinstance(made, dict) else folder.model == slug
            if not same or self.at is None or folder.manifest is None:
                return same  # one that cannot be read may have been extracted from there
            name = folder.manifest.model_info.get("name", "")
            return Path(name).expanduser().resolve() == self.at

        return list(filter(is_of, folders))

    def of_task(self, folders: Sequence[EntryFolder]) -> list[EntryFolder]:
        """Return the folders that hold, or will hold, entries of the task.

        A damaged one goes by its folder's name.
        """
        marks: dict[Path, Marks] = {}

        def is_of(folder: EntryFolder) -> bool:
            text = None if self.text is None else folder.asked.get("text")
            if self.text is None or not isinstance(text, str):
                return folder.task == self.slug
            place, split = folder.path.parent, folder.split
            if place not in marks:
                marks[place] = read_marks(folder.path)
            of_parts = marks[place].get((split, text), ())
            return text == self.text(split, folder.limit, False) or any(
                mark.source == self.text(split, mark.limit, False) for mark in of_parts
            )

        def was_read_at_once(folder: EntryFolder) -> bool:
            names = self.slug, self.slug.rpartition("-")[0]  # with a hash of its text, or without
            text = folder.asked.get("text")
            of_part = (folder.split, text) in marks.get(folder.path.parent, ())
            if self.text is None or of_part or folder.task.rpartition("-")[0] not in names:
                return False
            return text == self.text(folder.split, folder.limit, True)

        known = list(filter(is_of, folders))
        left = {folder.split for folder in folders} - {folder.split for folder in known}
        return known + [f for f in folders if f.split in left and was_read_at_once(f)]


def find_entries(
    root: Path,
    wanted: Wanted,
    split: str,
    entry: PathName | None = None,
    *,
    arrays: Collection[str] = (),
) -> Entry:
    """Return the entry of a model, task and split; exactly one must match.

    Of several, one of the whole split goes before one of its first examples (``--limit``), and of
    these the newest before others, which is said; and one that holds all that the others do before
    these. None goes before another where the states of some were imported; an imported one that is
    taken is named.

    Args:
        root: the cache root.
        wanted: model and task.
        split: the split's name.
        entry: chooses where several match: a prefix of the key, a folder name, or a path. It may
            name an entry of another split; then the one made by the same request is taken.
        arrays: of several entries, those that hold one of these at each of their points are meant.

    Raises:
        EntryNotFoundError: none matches, or several do and ``entry`` does not choose, or none of
            these holds the arrays.
        EntryError: the one that matches is unfinished or damaged.
    """
    folders = list_entries(root)
    of_task = wanted.of_task(wanted.of_model(folders))
    matching = [folder for folder in of_task if folder.split == split]
    every = parted_splits(matching)
    parted = _newest(every, wanted)
    if entry is not None:
        entry = typed_name(entry)
        of_key = [head for head, parts in parted.items() if parts.key.startswith(entry)]
        matching = of_key or _chosen(matching, of_task, entry)
    known_by_name = every if wanted.text is None else ()  # what is not of the newest text is old
    heads = {folder: list[EntryFolder]() for p in known_by_name for folder in p.folders.values()}
    for head, parts in parted.items():
        for folder in parts.folders.values():
            heads.setdefault(folder, []).append(head)
    matching = list(dict.fromkeys(chain.from_iterable(heads.get(f, [f]) for f in matching)))
    made = {f: (parted.get(f) or f).manifest for f in matching}
    complete = {folder: manifest for folder, manifest in made.items() if manifest is not None}
    best = _best(complete, arrays, f"{model_slug(wanted.model)} {wanted.task}")
    more: tuple[str, ...] = ()
    if tuple(arrays) == (TOKENS,):
        more = ("--keep", TOKENS, "--layers", "0:")
    if (points := keep_and_points(arrays)[1]) is not None:
        more += ("--points", f"{RESID_POST},{points}")
    if len(best) > 1 and more and not any(_holds(m, arrays) for m in best.values()):
        needed = " and ".join(" or ".join(group) for group in _of_points(arrays))
        raise EntryNotFoundError(
            f"{len(best)} entries match {wanted.model} {wanted.task} split {split}, and none holds "
            f"{needed}. Extract again with {' '.join(more)}."
        )
    if len(best) > 1:
        raise EntryNotFoundError(_several(best, wanted, split))
    if matching:
        chosen = (list(best) or matching)[0]
        entry_found = parted[chosen].open() if chosen in parted else Entry.open(chosen.path)
        if entry_found.manifest.imported is not None:
            about = entry_found.manifest
            info_once(logger, "%s: its states were %s", entry_found.path, about.states_from)
        return entry_found
    raise EntryNotFoundError(_why_none(root, wanted, split, entry, of_task, folders, more))


def _newest(every: Sequence[PartedSplit], wanted: Wanted) -> dict[EntryFolder, PartedSplit]:
    """Return the splits in parts that are meant, by head; of each request that of the last text."""
    text, newest = wanted.text, dict[str, PartedSplit]()
    for parts in sorted(every, key=lambda p: (p.whole, p.limit is None, p.marked)):
        head = parts.head
        if text is None or parts.source == text(head.split, parts.limit, False):
            newest[digest([{**head.asked, "text": parts.limit}])] = parts
    return {parts.head: parts for parts in newest.values()}


def _chosen(
    matching: Sequence[EntryFolder], of_task: Sequence[EntryFolder], entry: str
) -> list[EntryFolder]:
    """Return what a choice names of some entries; else those most like what it names elsewhere."""
    named = [folder for folder in matching if names_entry(entry, folder)]
    if named:
        return named
    elsewhere = [f.manifest for f in of_task if names_entry(entry, f) and f.manifest is not None]
    alike = {
        folder: max((_likeness(folder.manifest, other) for other in elsewhere), default=0)
        for folder in matching
        if folder.manifest is not None
    }
    most = max(alike.values(), default=0)
    return [folder for folder, likeness in alike.items() if 0 < likeness == most]


def _likeness(manifest: Manifest, chosen: Manifest) -> int:
    """Return how much an entry is like one of another split that was chosen.

    Returns:
        2 for the same request of as large a part, 1 where it is of a whole split that has no more
        examples than the chosen one took, 0 for another request or part.
    """
    if _of_any_split(manifest) != _of_any_split(chosen):
        return 0
    if manifest.limit == chosen.limit:
        return 2
    return int(chosen.limit is not None and manifest.counts["examples"] <= chosen.limit)


def _of_any_split(manifest: Manifest) -> dict[str, Any]:
    """Return a request without what no two splits have in common."""
    asked = {**manifest.request, "text": None}
    if manifest.imported is not None:
        asked["imported"] = {**manifest.imported, "states": None}
    return asked


def names_entry(entry: str, folder: EntryFolder) -> bool:
    """Say whether a prefix of a key, a folder name or a path names an entry."""
    if entry == folder.path.name or Path(entry).expanduser().resolve() == folder.path.resolve():
        return True
    if len(entry) <= len(folder.key8):
        return bool(entry) and folder.key8.startswith(entry)
    manifest = folder.manifest if entry.startswith(folder.key8) else None
    return manifest is not None and manifest.key.startswith(entry)


def _of_points(arrays: Collection[str]) -> list[list[str]]:
    """Return arrays grouped by the point that they are of."""
    groups: dict[str, list[str]] = {}
    for array in arrays:
        groups.setdefault(ARRAYS[array].point, []).append(array)
    return list(groups.values())


def _holds(manifest: Manifest, arrays: Collection[str]) -> bool:
    """Say whether an entry holds one of some arrays, at each point that they are of."""
    kept = set(manifest.request["keep"])
    return all(kept & set(group) for group in _of_points(arrays))


def _best(
    entries: Mapping[EntryFolder, Manifest], arrays: Collection[str], where: str
) -> dict[EntryFolder, Manifest]:
    """Leave out entries without the arrays, of a part of the split, and that others hold all of."""
    useful = {f: m for f, m in entries.items() if _holds(m, arrays)}
    useful = useful or dict(entries)
    if len({manifest.imported is None for manifest in useful.values()}) != 1:
        return useful
    newest = max(useful.values(), key=lambda m: (m.limit is None, m.created, m.limit or 0))
    parts = {m.limit for m in useful.values() if m.limit is not None} - {newest.limit}
    if parts:
        first = "using whole splits, not their first"
        if newest.limit is not None:
            first = f"using the newest entry ({newest.part}), not that of the first"
        listed = " or ".join(map(str, sorted(parts)))
        chosen = "the path of an entry, in place of model and task, chooses those"
        warn_once(logger, "%s: %s %s examples (%s).", where, first, listed, chosen)
        useful = {folder: m for folder, m in useful.items() if m.limit == newest.limit}
    if not set(_differing(list(useful.values()))) <= set(_HOLDS):
        return useful
    every = {name: set().union(*(m.request[name] for m in useful.values())) for name in _HOLDS}
    widest = {f: m for f, m in useful.items() if all(set(m.request[n]) == every[n] for n in _HOLDS)}
    return widest or useful


def _several(entries: Mapping[EntryFolder, Manifest], wanted: Wanted, split: str) -> str:
    names = _differing(list(entries.values()))
    described = (
        f"{folder.key8} ({_described(folder, manifest, names)})"
        for folder, manifest in entries.items()
    )
    return (
        f"{len(entries)} entries match {wanted.model} {wanted.task} split {split}: "
        f"{'; '.join(described)}. Give the path of one in place of model and task (probekit cache "
        "path KEY), or remove what is out of date: probekit cache rm KEY."
    )


def _differing(manifests: Sequence[Manifest]) -> list[str]:
    """Return in what entries of a split differ; of another part of it the text is no news."""
    asked = [{**m.request, "limit": m.limit} for m in manifests]
    names = sorted({name for request in asked for name in request})
    differing = [n for n in names if any(r.get(n) != asked[0].get(n) for r in asked)]
    return [name for name in differing if name != "text"] if "limit" in differing else differing


def _described(folder: EntryFolder, manifest: Manifest, names: Sequence[str]) -> str:
    """Return in words what tells an entry from the others."""
    words = []
    if "imported" in names:  # and whatever follows from it
        words.append(manifest.states_from)
        names = [name for name in names if name in (*_HOLDS, "limit", "dtype")] or names[:0]
        if not names:
            return words[0]
    for name in names or ["name"]:
        value: Any = manifest.request.get(name)
        if name == "limit":
            words.append(manifest.part)
        elif name == "model":
            words.append(f"model {value['weights'][:8]}, made {manifest.created}")
        elif name == "name":
            words.append(f"{folder.model} {folder.task}")
        elif name in _AS_IT_IS:
            words.append(str(value))
        elif name == "tokens":
            words.append(_TOKENS.get(value, f"--only {value}"))
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            words.append(f"{name} {text if len(text) <= 40 else f'{text[:12]}...'}")
    return ", ".join(words)


def _why_none(
    root: Path,
    wanted: Wanted,
    split: str,
    entry: str | None,
    of_task: Sequence[EntryFolder],
    folders: Sequence[EntryFolder],
    more: Sequence[str],
) -> str:
    model, task, slug = wanted.model, wanted.task, model_slug(wanted.model)
    of_model = wanted.of_model(folders)
    command = extraction_of(root, wanted, of_model, more=more)
    if entry is not None and of_task:
        keys = ", ".join(f.path.name for f in of_task)
        return f"no entry of {model} {task} split {split} matches {entry}; there are: {keys}."
    places = {folder.path.parent for folder in of_task}
    beside = [f for f in of_model if f.path.parent in places and f.split == split]
    if beside and wanted.text is not None:
        return (
            f"the text of {task}, split {split}, has changed since {beside[0].path} was made. New "
            f"labels can reuse an entry, new words need a new one. Type: {command}"
        )
    if of_task:
        splits = ", ".join(sorted({f.split for f in of_task}))
        other = ", or fit on another split: --fit-on SPLIT --hold-out 0.1" * (split == "train")
        return (
            f"no entry of {model} {task} for split {split} in {root} (there is: {splits}). "
            f"Type: {extraction_of(root, wanted, of_model, split, more)}{other}"
        )
    by_name = any((f.model, f.task) == (slug, wanted.slug) for f in folders)
    if by_name and wanted.identity is not None:
        return (
            f"the entries of {slug} {task} in {root} were made with a different model than the "
            f"one that is at {model} now. Type: {command}"
        )
    if wanted.at is not None and any(folder.model == slug for folder in folders):
        return (
            f"{model} has no config.json or no weights, and the entries of {slug} in {root} were "
            "made from a model at another path. Give the path of that model, the path of an "
            f"entry (`probekit cache ls`), or just {slug}, the name in the cache."
        )
    if by_name or (wanted.text is not None and of_model):
        hint = f" This text of {task} is not in the cache (a changed text counts as a new one)."
    else:
        held = sorted({f"{f.model} {f.task}" for f in folders})
        near = [other for other in held if other.split()[0] == slug]  # else names much like it
        near = near or difflib.get_close_matches(f"{slug} {task}", held, n=3, cutoff=0.5)
        hint = f" The cache holds {', '.join(near)}." if near else ""
    return f"no entry of {model} {task} in {root}.{hint} Type: {command}"


def extraction_of(
    root: Path,
    wanted: Wanted,
    of_model: Sequence[EntryFolder],
    split: str = "",
    more: Sequence[str] = (),
) -> str:
    """Return what extracts an entry: a command, or a call with what was in memory.

    Args:
        root: the cache root.
        wanted: whose entry.
        of_model: folders of the model.
        split: the one that is extracted; all if empty.
        more: options that a command has at its end.
    """
    made = [folder.manifest for folder in of_model if folder.manifest is not None]
    given = any(manifest.model_info.get("source") == "memory" for manifest in made)
    texts = any(m.origin == EXAMPLES_IN_MEMORY and m.task == wanted.slug for m in made)
    of_task = [manifest for manifest in made if manifest.task in (wanted.task, wanted.slug)]
    imported = bool(of_task) and all(manifest.imported is not None for manifest in of_task)
    if given or texts:
        name = f"tokenizer=TOKENIZER, name={wanted.model!r}"
        words = [f"model=MODEL, {name}" if given else f"model={wanted.model!r}"]
        words.append("examples=EXAMPLES" if texts else f"task={wanted.task!r}")
        words += ["states=STATES"] if imported else []
        words += [] if root == Path("cache") else [f"cache={str(root)!r}"]
        return f"probekit.{'import_states' if imported else 'extract'}({', '.join(words)})"
    root_words = [] if root == Path("cache") else ["--cache", str(root)]
    if imported:
        states = f"{split or 'SPLIT'}=STATES"
        words = ["cache", "import", wanted.model, wanted.task, states, *wanted.typed]
        return shlex.join(["probekit", *words, *root_words])
    part = None if wanted.identity is None else wanted.identity.get("part")
    words = ["probekit", "extract", wanted.model, wanted.task, *wanted.typed]
    words += [*([] if part is None else ["--part", part]), *root_words]
    words += ["--split", split] if split else []
    return shlex.join([*words, *more])
