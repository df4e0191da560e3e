"""A complete entry, opened for reading."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from probekit.base.messages.reasons import reason_of
from probekit.errors import EXTRACT_AGAIN, EntryError, EntryNotFoundError
from probekit.store.backends import places_of
from probekit.store.entry_names import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST, PARTIAL, beside
from probekit.store.feature_array import FeatureArray
from probekit.store.manifest import Manifest
from probekit.store.replacing import read_standing
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, ExampleTable, read_table

_LARGEST_MANIFEST = 2**24


@dataclass(frozen=True)
class Entry:
    """One cache entry: manifest, arrays and example table.

    Attributes:
        path: the entry's folder.
        manifest: what the entry is.
        arrays: the arrays by name, memory-mapped on first read.
    """

    path: Path
    manifest: Manifest = field(repr=False)
    arrays: Mapping[str, FeatureArray]

    @classmethod
    def open(cls, path: Path) -> "Entry":
        """Open an entry and check that it is whole (sizes, not checksums).

        Args:
            path: the entry's folder.

        Raises:
            EntryNotFoundError: there is no such folder.
            EntryError: the entry is unfinished or of another format version, or a file or
                chunk is missing or short.
        """
        return read_standing(path, cls._open)

    @classmethod
    def _open(cls, path: Path) -> "Entry":
        manifest = _read_manifest(path)
        arrays = {}
        for spec in manifest.arrays:
            places = places_of(path, manifest.backend, [spec]).values()
            arrays[spec.name] = FeatureArray(spec, [place.check() for place in places])
        for name in (EXAMPLES, CHECKSUMS):
            if not (path / name).is_file():
                raise EntryError(f"{path / name} is missing: the entry is damaged. {EXTRACT_AGAIN}")
        return cls(path, manifest, _Arrays(manifest, arrays))

    @cached_property
    def examples(self) -> ExampleTable:
        """The example table, read on first use.

        Raises:
            EntryError: the table is damaged, or tells of rows that the arrays do not have.
        """
        file = self.path / EXAMPLES
        table = ExampleTable(read_table(file, EXAMPLE_SCHEMA, OPTIONAL_SCHEMA))
        table.check({spec.name: spec.rows for spec in self.manifest.arrays}, str(file))
        return table

    @property
    def backbone(self) -> Path:
        """Folder of the backbone's configuration and small weights."""
        return self.path / BACKBONE


class _Arrays(Mapping[str, FeatureArray]):
    """Arrays by name; an unknown name says which the entry holds."""

    def __init__(self, manifest: Manifest, arrays: Mapping[str, FeatureArray]) -> None:
        self._manifest = manifest
        self._arrays = arrays

    def __getitem__(self, name: str) -> FeatureArray:
        return self._arrays[self._manifest.array(name).name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __repr__(self) -> str:
        return repr(dict(self._arrays))


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a complete entry.

    Raises:
        EntryNotFoundError: there is no such folder.
        EntryError: the entry is unfinished, or its manifest is damaged or of another version.
    """
    return read_standing(path, _read_manifest)


def _read_manifest(path: Path) -> Manifest:
    partial = path.name.endswith(PARTIAL)
    if partial or not (path / MANIFEST).is_file():
        if partial or beside(path, PARTIAL).is_dir():
            raise EntryError(
                f"{path} is unfinished. Run the same `probekit extract` command again: "
                "it resumes where it stopped."
            )
        if not path.is_dir():
            raise EntryNotFoundError(f"no cache entry at {path}. `probekit cache ls` lists them.")
        raise EntryError(
            f"{path} is not a complete cache entry: it has no {MANIFEST}. {EXTRACT_AGAIN}"
        )
    return Manifest.from_json(manifest_text(path), str(path / MANIFEST))


def manifest_text(path: Path) -> str:
    """Return the text of an entry's manifest.

    Raises:
        EntryError: it cannot be read, or is no text of a manifest's size.
    """
    file = path / MANIFEST
    try:
        if file.stat().st_size > _LARGEST_MANIFEST:
            raise EntryError(f"{file} is larger than any manifest is. {EXTRACT_AGAIN}")
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EntryError(f"{file} cannot be read ({reason_of(error)}). {EXTRACT_AGAIN}") from None
