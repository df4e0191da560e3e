"""The form in which an entry lies in a Hub repository: a few large files, a layer to each.

It is the same for every backend. ``cache/README.md`` specifies it, under "On the Hub".
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from probekit.errors import EntryError, EntryVersionError
from probekit.extraction.transport.remote_files import PULL_AGAIN, PUSH_AGAIN
from probekit.store import json_types as types
from probekit.store.arrays import ArraySpec, PlainArray
from probekit.store.json_types import is_name, read_object
from probekit.store.layout import LABELS, split_and_key
from probekit.store.manifest import Manifest
from probekit.store.marks import checksum

FORM = "probekit.json"
"""What marks a folder of a repository as an entry."""

VERSION = 1
FILE_BYTES = 2**30
"""Bytes of a file of chunks, unless a single run of rows takes more.

A pull that was killed begins the file anew that it was at, and a push keeps one on the disk.
"""

LARGEST = 2**20
"""Bytes of ``probekit.json`` beyond which it is none."""

_FEATURES = "features"


@dataclass(frozen=True, slots=True)
class FileSum:
    """Size and checksum of a small file.

    Attributes:
        nbytes: its bytes.
        xxh128: the checksum of these bytes (`marks.checksum`).
    """

    nbytes: int
    xxh128: str

    @classmethod
    def of(cls, data: bytes) -> "FileSum":
        """Return those of some bytes."""
        return cls(len(data), checksum(data))

    def check(self, data: bytes, where: str) -> bytes:
        """Return the bytes, if they are those that were summed.

        Raises:
            EntryError: they are not.
        """
        if FileSum.of(data) != self:
            raise EntryError(
                f"{where} is not as it was pushed: expected {self.nbytes:,} bytes with checksum "
                f"{self.xxh128[:12]}, found {len(data):,} with {checksum(data)[:12]}. {PULL_AGAIN}"
            )
        return data


def _is_sum(value: object) -> bool:
    """Accept what `FileSum` is as JSON."""
    kinds = {"nbytes": types.whole(0, 2**53), "xxh128": types.text}
    return (
        isinstance(value, Mapping)
        and value.keys() == kinds.keys()
        and not types.mistyped(value, kinds)
    )


def _are_labels(value: object) -> bool:
    """Accept such sums by the names of label files."""
    return (
        isinstance(value, Mapping)
        and all(is_name(name) and name.endswith(".parquet") for name in value)
        and all(map(_is_sum, value.values()))
    )


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A file of chunks: one layer of one array, over some consecutive row chunks.

    Its bytes are the chunks one after the other, as the entry stores them; where a chunk has others
    beside it (of int8: its norms, its scales), they follow it.

    Attributes:
        array: the array, as the entry that is pushed describes it.
        layer: the layer's number.
        start: first row chunk.
        stop: one past the last.
        part: number of the file among those of its array and layer.
    """

    array: ArraySpec
    layer: int
    start: int
    stop: int
    part: int

    @property
    def name(self) -> str:
        """Its path in the entry's folder: ``features/words/layer-008-000.bin``."""
        return f"{_FEATURES}/{self.array.name}/layer-{self.layer:03d}-{self.part:03d}.bin"

    @property
    def nbytes(self) -> int:
        """Its size."""
        return (self.stop - self.start) * _run_nbytes(self.array)

    @property
    def chunks(self) -> Iterator[tuple[PlainArray, int]]:
        """Plain array and row chunk of each of its chunks, in their order."""
        for row_chunk in range(self.start, self.stop):
            for plain in self.array.plain():
                yield plain, row_chunk


@dataclass(frozen=True, kw_only=True, slots=True)
class TransportForm:
    """What ``probekit.json`` says of an entry's files.

    Attributes:
        text: whether words, texts and labels are there.
        row_chunks: how many row chunks a file holds, per array.
        examples: of ``examples.parquet``, as it lies there.
        labels: of each label file, by its name.
        version: of the form.
    """

    text: Annotated[bool, types.boolean]
    row_chunks: Annotated[Mapping[str, int], types.table_of(types.whole(1, 2**40))]
    examples: Annotated[FileSum, _is_sum]
    labels: Annotated[Mapping[str, FileSum], _are_labels]
    version: int = VERSION

    def to_json(self) -> bytes:
        """Return the file's text."""
        values = asdict(self)
        return (json.dumps({"version": values.pop("version"), **values}, indent=1) + "\n").encode()

    @classmethod
    def read(cls, file: Path, where: str) -> "TransportForm":
        """Read `to_json`'s form, which anybody may have written.

        Args:
            file: the file.
            where: what messages call it.

        Raises:
            EntryError: it is none, or of a newer version.
        """
        values = (read_object(file) if file.stat().st_size <= LARGEST else None) or {}
        version = values.pop("version", None)
        if type(version) is int and version > VERSION:
            raise EntryVersionError(
                f"{where}: version {version!r:.20} of the form of entries on the Hub, and this "
                f"probekit reads version {VERSION}: upgrade probekit."
            )
        if type(version) is not int or version != VERSION or _mistyped(values):
            raise EntryError(
                f"{where} does not say what a pushed entry says of its files. {PUSH_AGAIN}"
            )
        labels = {name: FileSum(**found) for name, found in values.pop("labels").items()}
        return cls(examples=FileSum(**values.pop("examples")), labels=labels, **values)

    def files(self, arrays: Sequence[ArraySpec], whole: Manifest) -> list[LayerFile]:
        """Return the files that hold some arrays, in their order.

        Args:
            arrays: all of an entry's arrays, or a part of them.
            whole: the manifest of the entry that was pushed.

        Raises:
            EntryError: the form does not say of an array how it is cut.
        """
        found = []
        for spec in arrays:
            if spec.name not in self.row_chunks:
                raise EntryError(f"{FORM} does not say how array {spec.name!r} is cut into files.")
            size, pushed = self.row_chunks[spec.name], whole.array(spec.name)
            starts = range(0, pushed.n_row_chunks, size)
            found += [
                LayerFile(pushed, layer, start, min(start + size, pushed.n_row_chunks), part)
                for layer in spec.layers
                for part, start in enumerate(starts)
            ]
        return found


def _mistyped(values: Mapping[str, object]) -> bool:
    """Say whether fields of a form are missing, unknown or impossible."""
    known = types.types_of(TransportForm)
    return values.keys() != known.keys() or bool(types.mistyped(values, known))


def chunks_of_a_file(spec: ArraySpec) -> int:
    """Return how many row chunks of an array a file holds."""
    return max(FILE_BYTES // _run_nbytes(spec), 1)


def label_path(name: str) -> str:
    """Return the path of a label file in the entry's folder."""
    return f"{LABELS}/{name}"


def entry_folders(names: Sequence[str]) -> list[str]:
    """Return the folders of entries among the files of a repository, sorted.

    Each is ``<model>/<task>/<split>-<key8>``, as in a cache; what lies elsewhere is none.
    """
    found = re.compile(rf"([^/]+)/([^/]+)/([^/]+)/{re.escape(FORM)}")
    parts = (match.groups() for name in names if (match := found.fullmatch(name)))
    return sorted("/".join(p) for p in parts if all(map(is_name, p)) and split_and_key(p[2]))


def _run_nbytes(spec: ArraySpec) -> int:
    """Return the bytes of one layer of a row chunk, with what lies beside it."""
    return sum(plain.chunk_nbytes for plain in spec.plain())
