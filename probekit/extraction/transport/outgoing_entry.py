"""An entry of a cache as it is to lie in a repository: its files there, and their bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
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
from probekit.store.checksums import verify_files
from probekit.store.labels import files_of
from probekit.store.layout import BACKBONE, CHECKSUMS, EXAMPLES, MANIFEST
from probekit.store.manifest import Manifest
from probekit.store.marks import ChunkSum
from probekit.store.tables import table_bytes
from probekit.store.verified import VerifiedEntry


@dataclass(frozen=True)
class OutgoingEntry:
    """One entry as it lies in the repository.

    Attributes:
        source: the entry.
        form: how its files are cut, and whether its text is among them.
        small: every file but those of chunks, by its path in the entry's folder.
    """

    source: VerifiedEntry
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
        if wrong := verify_files(path):
            raise EntryError(f"{path}: {wrong[0]}. It is not pushed. {EXTRACT_AGAIN}")
        source = VerifiedEntry(path)
        entry = source.entry
        if text:
            examples = (source.path / EXAMPLES).read_bytes()
            labels = {file.path.name: file.path.read_bytes() for file in files_of(entry)}
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
            MANIFEST: source.manifest_text.encode(),
            EXAMPLES: examples,
            CHECKSUMS: (source.path / CHECKSUMS).read_bytes(),
            **dict(sorted(backbone.items())),
            **{label_path(name): data for name, data in sorted(labels.items())},
        }
        return cls(source, form, small)

    @property
    def manifest(self) -> Manifest:
        """What the entry is."""
        return self.source.manifest

    @property
    def folder(self) -> str:
        """Its folder in the repository: ``<model>/<task>/<split>-<key8>``, as in a cache."""
        return folder_of(self.manifest)

    @property
    def layer_files(self) -> list[LayerFile]:
        """The files of its chunks."""
        return self.form.files(self.manifest.arrays, self.manifest)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file, by its path in the repository."""
        files = {name: len(data) for name, data in self.small.items()}
        files |= {file.name: file.nbytes for file in self.layer_files}
        return {f"{self.folder}/{name}": size for name, size in files.items()}

    def sums(self, file: LayerFile) -> list[ChunkSum]:
        """Return the checksums of a file's chunks, in their order; `source` gives the bytes.

        Raises:
            EntryError: the table of checksums is damaged.
        """
        at = file.array.layers.index(file.layer)
        return [self.source.sum_of(plain.name, row_chunk, at) for plain, row_chunk in file.chunks]
