"""Which entries a user names: paths, keys, or a model, a task and perhaps a split."""

import logging
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from probekit.backbone.checkpoint import local_path
from probekit.backbone.remembered import identity_at
from probekit.base.kinds import KINDS
from probekit.errors import EntryNotFoundError, OptionError, ProbekitError
from probekit.store.entry import EntryFolder, list_entries
from probekit.store.files import plain_path, typed_path
from probekit.store.find import Wanted, names_entry
from probekit.store.layout import MANIFEST, PARTIAL, asked_of
from probekit.store.manifest import read_manifest
from probekit.tasks import TASKS, TextOptions, folder_name, get_task, is_called

logger = logging.getLogger(__name__)


def select_folders(names: Sequence[str], root: Path) -> list[Path]:
    """Return the entry folders that the user names, finished or not.

    Args:
        names: paths or keys of entries (eight digits or more), or a model, a task and perhaps a
            split or key. A model at a path is known by what it is, own data at a path by its text.
        root: the cache root.

    Raises:
        EntryNotFoundError: nothing matches.
        OptionError: more than model, task and split; or a model at a path that is none any more.
    """
    # ``.`` and ``..`` have no name of their own
    paths = [plain_path(p) if p.name in ("", "..") else p for p in map(typed_path, names)]
    folders = list_entries(root)
    listed = {folder.path.resolve() for folder in folders}
    if all(_is_entry(path) or path.resolve() in listed for path in paths):
        return paths
    keyed = [_of_key(name, folders) for name in names]
    if all(keyed):
        return [path for paths_found in keyed for path in paths_found]
    if len(names) > 3:
        raise OptionError(f"give paths of entries, or MODEL TASK [SPLIT]; found {' '.join(names)}.")
    above = {root.resolve(), *(parent for path in listed for parent in list(path.parents)[:2])}
    written = names[0] != paths[0].name  # a path; one of the cache itself is no model
    named = [] if written and paths[0].resolve() in above else _of_model(names[0], folders)
    if len(names) > 1:
        named = _of_task(names[1], named)
    paths_found = [
        folder.path
        for folder in named
        if len(names) < 3 or names[2] in (folder.split, folder.key8, folder.path.name)
    ]
    if not paths_found:
        where = "" if root == Path("cache") else f" --cache {root}"
        raise EntryNotFoundError(
            f"no cache entry matches {' '.join(names)} in {root}. "
            f"`probekit cache ls{where}` lists them."
        )
    return paths_found


def select_sources(names: Sequence[str], root: Path) -> list[Path]:
    """Return the complete entries that the user names, those of a whole cache by its root.

    Of several, what is unfinished is left out, and said.

    Args:
        names: a cache root, or as for `select_folders`.
        root: the cache root of the others.

    Raises:
        EntryNotFoundError: nothing matches.
        EntryError: what is named is unfinished.
        OptionError: as for `select_folders`.
    """
    given = typed_path(names[0]).expanduser()
    whole = len(names) == 1 and not _is_entry(given) and given.is_dir()
    selected = [folder.path for folder in list_entries(given)] if whole else []
    selected = selected or select_folders(names, root)
    complete = [path for path in selected if not path.name.endswith(PARTIAL)]
    for path in [path for path in selected if path not in complete]:
        if not complete or plain_path(path) in map(plain_path, map(typed_path, names)):
            read_manifest(path)  # says what to do
        logger.warning(
            "left out: %s is unfinished. The command that began it goes on with it.", path
        )
    return complete


def _of_model(name: str, folders: Sequence[EntryFolder]) -> list[EntryFolder]:
    """Return the entries of a model: the one that lies at a path, or all of a name."""
    path, identity = local_path(name), identity_at(name)
    if identity is None and path is not None:
        raise OptionError(
            f"{name}: what model this is cannot be said any more, and another may have had its "
            "name. Give keys or paths of entries (`probekit cache ls`)."
        )
    return Wanted(model=name, task="", slug="", identity=identity).of_model(folders)


def _of_task(name: str, folders: Sequence[EntryFolder]) -> list[EntryFolder]:
    """Return the entries of a task: of own data at a path by its text, of all others by name."""
    if name.partition("/")[0] in TASKS or not Path(name).expanduser().exists():
        return [folder for folder in folders if is_called(folder.task, name)]
    silent = [f for f in folders if not asked_of(f.path) and is_called(f.task, name)]
    by_path = {folder.path: folder for folder in silent}
    for kind in KINDS:
        wanted = Wanted(model="", task=name, slug=folder_name(name), text=_texts(name, kind))
        by_path |= {folder.path: folder for folder in wanted.of_task(folders)}
    return list(by_path.values())


def _texts(name: str, kind: str) -> Callable[[str, int | None], str | None]:
    """Return a function to the fingerprints of own data read as a kind; None if it is not that."""

    @cache
    def fingerprint(split: str, limit: int | None) -> str | None:
        try:
            task = get_task(name, TextOptions(kind=kind))
            return task.read(split).first(limit).text_fingerprint()
        except ProbekitError:  # of another kind, or read with options that are not known here
            return None

    return fingerprint


def _of_key(name: str, folders: Sequence[EntryFolder]) -> list[Path]:
    """Return the entries of a key, or of its beginning as ``cache ls`` prints it."""
    is_key = re.fullmatch(r"[0-9a-f]{8,64}", name) is not None
    return [folder.path for folder in folders if is_key and names_entry(name, folder)]


def _is_entry(path: Path) -> bool:
    return path.name.endswith(PARTIAL) or (path / MANIFEST).is_file()
