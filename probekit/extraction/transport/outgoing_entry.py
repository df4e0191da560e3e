"""An entry of a cache as it is to lie in a repository: its files there, and their bytes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from probekit.errors import EXTRACT_AGAIN, EntryError
from probekit.extraction.transport.remote_entry import folder_of
from probekit.extraction.transport.transport_form import (
    FORM,
    FileSum,
    LayerFile,
    TransportForm,
    chunks_of_a_file,
    label_path,
)
from probekit.extraction.transport.withheld_text import withhold
from probekit.store.backends import ChunkPlaces
from probekit.store.checksums import places_of, read_checksums, read_chunk, verify_files
from probekit.store.entry import Entry
from probekit.store.labels import labels_of
from probekit.store.layout import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST
from probekit.store.marks import ChunkSum
from probekit.store.tables import table_bytes


@dataclass(frozen=True)
class OutgoingEntry:
    """One entry as it lies in the repository.

    Attributes:
        entry: the entry.
        form: how its files are cut, and whether its text is among them.
        small: every file but those of chunks, by its path in the entry's folder.
    """

    entry: Entry
    form: TransportForm
    small: Mapping[str, bytes]

    @classmethod
    def of(cls, path: Path, *, text: bool) -> "OutgoingEntry":
        """Read what is sent of an entry besides its chunks.

        Args:
            path: the entry's folder.
            text: whether words, texts and labels are sent.

        Raises:
            EntryError: it is unfinished or damaged.
            OptionError: its text cannot be left out.
        """
        entry = Entry.open(path)
        if wrong := verify_files(path):
            raise EntryError(f"{path}: {wrong[0]}. It is not pushed. {EXTRACT_AGAIN}")
        if text:
            examples = (path / EXAMPLES).read_bytes()
            labels = {file.path.name: file.path.read_bytes() for file in labels_of(entry)}
        else:
            examples = table_bytes(withhold(entry.examples.table, entry.manifest))
            labels = {}
        form = TransportForm(
            text=text,
            row_chunks={spec.name: chunks_of_a_file(spec) for spec in entry.manifest.arrays},
            examples=FileSum.of(examples),
            labels={name: FileSum.of(data) for name, data in labels.items()},
        )
        backbone = {f"{BACKBONE}/{f.name}": f.read_bytes() for f in entry.backbone.iterdir()}
        small = {
            FORM: form.to_json(),
            MANIFEST: (path / MANIFEST).read_bytes(),
            EXAMPLES: examples,
            CHECKSUMS: (path / CHECKSUMS).read_bytes(),
            **dict(sorted(backbone.items())),
            **{label_path(name): data for name, data in sorted(labels.items())},
        }
        return cls(entry, form, small)

    @property
    def folder(self) -> str:
        """Its folder in the repository: ``<model>/<task>/<split>-<key8>``, as in a cache."""
        return folder_of(self.entry.manifest)

    @property
    def layer_files(self) -> list[LayerFile]:
        """The files of its chunks."""
        manifest = self.entry.manifest
        return self.form.files(manifest.arrays, manifest)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file, by its path in the repository."""
        files = {name: len(data) for name, data in self.small.items()}
        files |= {file.name: file.nbytes for file in self.layer_files}
        return {f"{self.folder}/{name}": size for name, size in files.items()}

    def chunks(self, file: LayerFile) -> Iterator[bytes]:
        """Yield the bytes of a file of chunks, each chunk verified.

        Raises:
            EntryError: a chunk is damaged.
        """
        at = file.array.layers.index(file.layer)
        for plain, row_chunk in file.chunks:
            yield read_chunk(self._sums[plain.name, row_chunk, at], self._places[plain.name])

    @cached_property
    def _places(self) -> dict[str, ChunkPlaces]:
        return places_of(self.entry.path, self.entry.manifest)

    @cached_property
    def _sums(self) -> dict[tuple[str, int, int], ChunkSum]:
        listed = read_checksums(self.entry.path, self.entry.manifest)
        return {(c.array, c.row_chunk, c.layer_index): c for c in listed}
