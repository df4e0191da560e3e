"""Entries: found in a cache, opened for reading, sealed when they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from probekit.base.markup import html_pairs, html_table, html_view
from probekit.base.notices import human_bytes
from probekit.base.registry import PathName
from probekit.base.replacing import matching
from probekit.errors import EXTRACT_AGAIN, EntryError, EntryNotFoundError
from probekit.store import layout
from probekit.store.backends import BACKENDS
from probekit.store.files import disk_bytes, typed_path
from probekit.store.manifest import Manifest, manifest_in, read_manifest, read_standing
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, ExampleTable, read_table

if TYPE_CHECKING:
    from probekit.store.feature_array import FeatureArray


def _layers_text(layers: Sequence[int]) -> str:
    """Return how many layers there are, and from where to where."""
    ends = f"{layers[0]} to {layers[-1]}" if len(layers) > 1 else layers[0]
    return f"{len(layers)} ({ends})"


@dataclass(frozen=True)
class Entry:
    """One cache entry: manifest, arrays and example table.

    Attributes:
        path: the entry's folder.
        manifest: what the entry is.
        arrays: the arrays by name, memory-mapped on first read.
        folder: where its files were found.
    """

    path: Path
    manifest: Manifest = field(repr=False)
    arrays: "Mapping[str, FeatureArray]"
    folder: Path = field(repr=False)

    @classmethod
    def open(cls, path: PathName) -> "Entry":
        """Open an entry and check that it is whole (sizes, not checksums).

        Args:
            path: the entry's folder.

        Raises:
            EntryNotFoundError: there is no such folder.
            EntryError: the entry is unfinished or of another format version, or a file or
                chunk is missing or short.
        """
        return read_standing(typed_path(path), cls._open)

    @classmethod
    def _open(cls, path: Path) -> "Entry":
        # not above: what finds entries needs no tensors
        from probekit.store.feature_array import FeatureArray, first_reads

        manifest, arrays = manifest_in(path), _Arrays()
        arrays.manifest, backend = manifest, BACKENDS[manifest.backend]
        for spec in manifest.arrays:
            places = [backend.places(path / backend.filename, plain) for plain in spec.plain()]
            whole = [chunks.check() for chunks in places]
            arrays[spec.name] = FeatureArray(spec, whole, first_reads(path, manifest))
        for name in (layout.EXAMPLES, layout.CHECKSUMS):
            if not (path / name).is_file():
                raise EntryError(f"{path / name} is missing: the entry is damaged. {EXTRACT_AGAIN}")
        return cls(path, manifest, arrays, path)

    def _repr_html_(self) -> str:
        """Return what the entry is, and its arrays, for a notebook."""
        of = self.manifest
        slots = {name: f"{array.rows:,}" for name, array in self.arrays.items()}
        rows = [
            [spec.name, slots[spec.name], _layers_text(spec.layers), spec.dim, spec.dtype]
            for spec in of.arrays
        ]
        arrays = html_table(
            ["array", "row slots", "layers", "dim", "dtype"], rows, [True, *[False] * 4]
        )
        pairs = {
            "path": self.path,
            "key": of.key[:8],
            "kind": of.kind,
            "holds": f"{of.part}: {of.counts['examples']:,} examples",
            "model": f"{of.n_blocks} blocks, {'causal' if of.causal else 'bidirectional'}, "
            f"run in {of.compute_dtype}",
            "states": of.states_from,
            "on disk": f"{human_bytes(disk_bytes(self.folder))}, {of.backend}",
            "made": of.created,
        }
        return html_view(html_pairs(pairs), arrays, title=f"{of.model}, {of.task} {of.split}")

    @cached_property
    def examples(self) -> ExampleTable:
        """The example table, read on first use.

        Raises:
            EntryError: the table is damaged, or tells of rows that the arrays do not have.
        """
        return read_examples(self.folder, self.manifest)

    @property
    def backbone(self) -> Path:
        """Folder of the backbone's configuration and small weights."""
        return self.folder / layout.BACKBONE

    @property
    def parts(self) -> "tuple[Entry, ...]":
        """The entries that it is read from: itself, or those of the parts of a large split."""
        return (self,)


def read_examples(folder: Path, manifest: Manifest) -> ExampleTable:
    """Return the example table in an entry's folder.

    Raises:
        EntryError: the table is damaged, or tells of rows that the arrays do not have.
    """
    file = folder / layout.EXAMPLES
    written = manifest.checksum_of(layout.EXAMPLES)
    table = ExampleTable(read_table(file, EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, written))
    table.check({spec.name: spec.rows for spec in manifest.arrays}, str(file))
    return table


def read_columns(folder: Path, manifest: Manifest, names: Sequence[str]) -> pa.Table:
    """Return columns of the example table in an entry's folder, without those that it lacks.

    Raises:
        EntryError: the table is damaged.
    """
    known = pa.unify_schemas([EXAMPLE_SCHEMA, OPTIONAL_SCHEMA])
    wanted, others = pa.schema(map(known.field, names)), {*known.names} - {*names}
    written = manifest.checksum_of(layout.EXAMPLES)
    return read_table(folder / layout.EXAMPLES, pa.schema([]), wanted, written, others)


class Entries(list[Entry]):
    """Entries as a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        """Return a line for every entry."""
        rows = [
            [
                entry.manifest.model,
                entry.manifest.task,
                entry.manifest.split,
                f"{entry.manifest.counts['examples']:,}",
                ", ".join(entry.arrays),
                human_bytes(disk_bytes(entry.folder)),
                entry.path,
            ]
            for entry in self
        ]
        headings = ["model", "task", "split", "examples", "arrays", "on disk", "path"]
        words = [True, True, True, False, True, False, True]
        return html_view(html_table(headings, rows, words))


class _Arrays(dict[str, "FeatureArray"]):
    """Arrays by name; an unknown name says which the entry holds."""

    manifest: Manifest

    def __missing__(self, name: str) -> NoReturn:
        self.manifest.array(name)  # says which there are
        raise KeyError(name)


@dataclass(frozen=True)
class EntryFolder:
    """One entry, complete or not, as the folder names tell it; what is read of it is read once.

    Attributes:
        path: the folder; with ``.partial`` if the entry is unfinished.
        model: the model's slug.
        task: the task's slug.
        split: the split's name.
        key8: first eight digits of the key.
        complete: whether a reader will accept it.
    """

    path: Path
    model: str
    task: str
    split: str
    key8: str
    complete: bool

    @property
    def nbytes(self) -> int:
        """Bytes its files take on the disk, less what a sparse file leaves out."""
        return disk_bytes(layout.standing(self.path))

    @cached_property
    def manifest(self) -> Manifest | None:
        """Its manifest; None where it is unfinished or cannot be read: `Entry.open` says why."""
        try:
            return read_manifest(self.path) if self.complete else None
        except (EntryError, EntryNotFoundError):
            return None

    @cached_property
    def asked(self) -> Mapping[str, Any]:
        """What it was asked for; empty where the folder is no entry."""
        return self.manifest.request if self.manifest else layout.asked_of(self.path)

    @cached_property
    def limit(self) -> int | None:
        """N where it holds only the first N examples of its split."""
        return self.manifest.limit if self.manifest else layout.limit_of(self.path)


def list_entries(root: Path) -> list[EntryFolder]:
    """Return all entries under a cache root, complete and unfinished, sorted by path."""
    entries = []
    for folder in matching(root, "*/*/*"):
        # An old entry is one where its replacement has not come.
        path = folder.with_name(folder.name.removesuffix(layout.REPLACED))
        name = layout.split_and_key(path.name)
        stands = folder == layout.standing(path) and folder.is_dir()
        if name is None or not stands or path.parent.name == layout.LABELS:
            continue
        final = not path.name.endswith(layout.PARTIAL)
        complete = final and (folder / layout.MANIFEST).is_file()
        inside = matching(folder, f"*/{layout.MANIFEST}") if final and not complete else ()
        if any(layout.split_and_key(manifest.parent.name) for manifest in inside):
            continue  # a task, of a cache below this one
        model, task = path.parent.parent.name, path.parent.name
        entries.append(EntryFolder(path, model, task, *name, complete))
    return sorted(entries, key=lambda entry: entry.path)


def folder_of_key(root: Path, split: str, key: str, task: str | None = None) -> Path | None:
    """Return the folder of the complete entry of a key, wherever it lies in the cache, if any.

    Args:
        root: the cache root.
        split: the split's name.
        key: 64 hex digits.
        task: the task's slug; None is any.
    """
    name = layout.entry_name(split, key)
    for folder in list_entries(root):
        path, asked = folder.path, task in (None, folder.task)
        if asked and path.name == name and layout.proven_key(path) == key:
            return path
    return None
