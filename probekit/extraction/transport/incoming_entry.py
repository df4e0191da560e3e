"""An entry of a repository that is to come into a cache, as a whole or in part: its files there."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from probekit.errors import EntryError
from probekit.extraction.maintenance.entry_part import asked_arrays, part_manifest
from probekit.extraction.transport.remote_entry import RemoteEntry
from probekit.extraction.transport.remote_files import PUSH_AGAIN
from probekit.extraction.transport.transport_form import FileSum, LayerFile, label_path
from probekit.store.entry import folder_of_key
from probekit.store.files import check_room, disk_bytes
from probekit.store.json_types import is_name
from probekit.store.layout import (
    BACKBONE,
    CHECKSUMS,
    EXAMPLES,
    MANIFEST,
    PARTIAL,
    beside,
    content_of,
    entry_folder,
)
from probekit.store.manifest import Manifest
from probekit.store.objects.object_path import ObjectPath
from probekit.tasks.task import slugify


@dataclass(frozen=True)
class IncomingEntry:
    """An entry of a repository, the part of it that is wanted, and where that goes.

    Attributes:
        found: the entry there.
        manifest: of the part; of the whole where all is wanted.
        path: the folder of what is made.
    """

    found: RemoteEntry
    manifest: Manifest
    path: Path

    @classmethod
    def of(
        cls, found: RemoteEntry, cache: Path, layers: str | None, arrays: Collection[str]
    ) -> "IncomingEntry":
        """Plan it, and check that everything is there, in its size.

        Raises:
            OptionError: a layer is in none of the arrays.
            EntryError: the entry has no such array; a file is missing or of another size.
        """
        whole = found.manifest
        part = part_manifest(whole, asked_arrays(whole, layers, arrays))
        slug = slugify(whole.task)
        path = folder_of_key(cache, part.split, part.key, slug) or entry_folder(
            cache, part.model, slug, part.split, part.key
        )
        one = cls(found, part, path)
        for name, size in one.sizes.items():
            found.remote.check(name, size)
        return one

    @property
    def complete(self) -> bool:
        """Whether the cache has it already."""
        return self.path.exists()

    @property
    def layer_files(self) -> list[LayerFile]:
        """The files of chunks that are wanted."""
        return self.found.form.files(self.manifest.arrays, self.found.manifest)

    @property
    def units(self) -> list[list[LayerFile]]:
        """The files of each unit of the building.

        In a folder it is one file. In an object store it is those of all layers over the same rows:
        an object may hold all of these, and is written whole.
        """
        if not isinstance(self.path, ObjectPath):
            return [[file] for file in self.layer_files]
        units: dict[tuple[str, int], list[LayerFile]] = {}
        for file in self.layer_files:
            units.setdefault((file.array.name, file.part), []).append(file)
        return list(units.values())

    @property
    def backbone(self) -> list[str]:
        """Paths of the files that lie in ``backbone/``, in the entry's folder."""
        folder = f"{BACKBONE}/"
        told = self.found.manifest.files
        return [n for n in told if n.startswith(folder) and is_name(n.removeprefix(folder))]

    @cached_property
    def small(self) -> dict[str, FileSum]:
        """The other files, by their paths in the entry's folder.

        Raises:
            EntryError: the manifest names a file that no entry has.
        """
        form, told = self.found.form, self.found.manifest.files
        needed = [CHECKSUMS, *([EXAMPLES] if form.text else []), *self.backbone]
        try:
            files = {name: FileSum(told[name]["nbytes"], told[name]["xxh128"]) for name in needed}
        except KeyError as error:
            raise EntryError(
                f"{self.where(MANIFEST)} does not say {error} of every file. {PUSH_AGAIN}"
            ) from None
        labels = {label_path(name): found for name, found in form.labels.items()}
        return {EXAMPLES: form.examples, **files, **labels}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file that is read, by its path in the repository."""
        files = {name: found.nbytes for name, found in self.small.items()}
        files |= {file.name: file.nbytes for file in self.layer_files}
        return {f"{self.found.folder}/{name}": size for name, size in files.items()}

    def where(self, name: str) -> str:
        """Return what messages call a file."""
        return f"{self.found.remote}: {self.found.folder}/{name}"

    @property
    def largest(self) -> int:
        """Bytes of the files of its largest unit, of which one is on its way at a time."""
        return max(sum(file.nbytes for file in unit) for unit in self.units)

    def check_room(self) -> None:
        """Check that the disk holds it, and the one unit that is on its way.

        Raises:
            StorageError: it does not.
        """
        begun = disk_bytes(content_of(beside(self.path, PARTIAL)))
        needed = max(sum(self.sizes.values()) - begun, 0) + self.largest
        less = "take fewer layers (--layers), or choose another --cache"
        check_room(self.path, needed, "this pull", less)

    @property
    def plan(self) -> dict[str, Any]:
        """What a pull that goes on must share with the one that was killed."""
        return {
            "made_by": "cache pull",
            "request": dict(self.manifest.request),
            "pulled": dict(self.found.manifest.files.get(CHECKSUMS, {})),
            "limit": self.manifest.limit,
            "backend": self.manifest.backend,
            "arrays": [spec.to_json() for spec in self.manifest.arrays],
            "units": [[file.name for file in unit] for unit in self.units],
        }
