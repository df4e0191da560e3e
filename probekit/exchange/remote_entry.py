"""An entry at a URL, read as a copy of it is made: what is small lies here, chunks stay there."""

import io
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from probekit.base.kinds import KINDS
from probekit.base.numbers import bounds_of
from probekit.base.registry import choose
from probekit.errors import EXTRACT_AGAIN, EntryError, OptionError
from probekit.exchange.remotes import Remote
from probekit.store.backends.contract import REMEDY
from probekit.store.backends.hdf5_file import Hdf5File
from probekit.store.checksums import ChunkSum, chunk_spans, parts_between
from probekit.store.entry import read_examples
from probekit.store.files import check_room, checksum, write_whole
from probekit.store.json_types import is_name
from probekit.store.labels import is_label_file, read_labels
from probekit.store.layout import EXAMPLES, LABELS, MANIFEST, entry_name, split_and_key
from probekit.store.manifest import LARGEST, Manifest
from probekit.store.tables import (
    EXAMPLE_SCHEMA,
    OPTIONAL_SCHEMA,
    ExampleTable,
    read_table,
    table_bytes,
)
from probekit.store.verified import FileOutline, VerifiedEntry
from probekit.tasks import Split
from probekit.tasks.task import slugify

logger = logging.getLogger(__name__)

PUSH_AGAIN = "Ask whoever pushed it to push it again."
PULL_AGAIN = "Pull again; if that does not help, ask whoever pushed it to push it again."


_LABELS_BYTES, _LABEL_BYTES = 2**20, 64  # of a file of labels, and for each word of its text
_BESIDES_BYTES = 2**26  # of an HDF5 file, what may be no chunk beside a quarter of it


def folder_of(manifest: Manifest) -> str:
    """Return the folder of an entry at a place: ``<model>/<task>/<split>-<key8>``."""
    name = entry_name(manifest.split, manifest.key)
    return f"{manifest.model}/{slugify(manifest.task)}/{name}"


def entry_folders(sizes: Mapping[str, int]) -> list[str]:
    """Return the folders of the entries among the files of a place, sorted."""
    folders = []
    for name in sizes:
        *parts, file = name.split("/")
        names = len(parts) == 3 and all(map(is_name, parts))
        if file == MANIFEST and names and split_and_key(parts[2]):
            folders.append("/".join(parts))
    return sorted(folders)


def labels_at(folder: str, manifest: Manifest, sizes: Mapping[str, int]) -> list[str]:
    """Return the paths of what may be labels of an entry, by names and sizes alone.

    Args:
        folder: the entry's at the place.
        manifest: of the entry.
        sizes: of all files there.
    """
    beside = f"{folder.rpartition('/')[0]}/{LABELS}/"
    most = _LABELS_BYTES + _LABEL_BYTES * sum(manifest.counts.values())
    named = (n for n in sizes if n.startswith(beside) and is_name(n[len(beside) :]))
    return [
        n for n in named if sizes[n] <= most and is_label_file(n[len(beside) :], manifest.split)
    ]


_TEXT_COLUMNS = ("id", "words", "text", "text_pair", "subwords")
"""Columns that are the text, or say it: subwords are numbers in a vocabulary that anybody has."""

UNKNOWN = -1
"""What stands for a subword that was not pushed."""

_WITHHELD_NAME = re.compile(r"withheld-([0-9a-f]{32})\.parquet")


def withheld_sum(name: str) -> str | None:
    """Return the checksum in the name of a table without its text; None for any other file."""
    match = _WITHHELD_NAME.fullmatch(name)
    return None if match is None else match[1]


def withhold(table: pa.Table, manifest: Manifest) -> tuple[str, bytes]:
    """Return an example table without its text as a file: its name and its bytes.

    Raises:
        OptionError: the labels are the text, as in language modelling.
    """
    if choose("kind", manifest.kind, KINDS).targets == "vocabulary":
        raise OptionError(
            f"{manifest.task} {manifest.split}: the labels of language modelling are the text, so "
            "this entry cannot be pushed with --no-text."
        )
    left = table_bytes(table.drop_columns([n for n in _TEXT_COLUMNS if n in table.column_names]))
    return f"withheld-{checksum(left)}.parquet", left


def restore(file: Path, split: Split, rows: Mapping[str, int]) -> ExampleTable:
    """Read an example table, and put the text of a split back.

    Args:
        file: a table as `withhold` leaves it, from anybody.
        split: of the entry's text.
        rows: how many the entry's arrays have.

    Raises:
        EntryError: it is damaged, or does not tell of these examples.
    """
    if checksum(file.read_bytes()) != withheld_sum(file.name):
        raise EntryError(f"{file} has changed since it was written. {REMEDY}")
    needed, optional = (
        pa.schema([item for item in schema if item.name not in _TEXT_COLUMNS])
        for schema in (EXAMPLE_SCHEMA, OPTIONAL_SCHEMA)
    )
    table, examples = read_table(file, needed, optional), split.examples
    if len(table) != len(examples):
        raise EntryError(f"{file} does not describe the {len(examples):,} examples of its text.")
    counts = [len(example.words) for example in examples]
    if any(counts) and table["n_rows"].to_pylist() != counts:
        raise EntryError(f"{file} does not match the words of its text.")
    lengths = table["word_map"].combine_chunks().value_lengths().fill_null(0)
    bounds = pa.array(bounds_of(lengths.to_numpy(zero_copy_only=False)).astype(np.int32))
    unknown = pa.array(np.full(bounds[-1].as_py(), UNKNOWN, np.int32))
    columns = {name: table[name].combine_chunks() for name in table.column_names} | {
        "id": [example.id for example in examples],
        "words": [list(example.words) for example in examples],
        "subwords": pa.ListArray.from_arrays(bounds, unknown),
    }
    texts = {
        "text": [example.text for example in examples],
        "text_pair": [example.text_pair for example in examples],
    }
    columns |= {name: of for name, of in texts.items() if any(text is not None for text in of)}
    restored = ExampleTable.from_columns(columns)
    restored.check(rows, str(file))
    return restored


class RemoteEntry(VerifiedEntry):
    """An entry at a URL; see `VerifiedEntry`.

    Attributes:
        remote: where it is.
        folder: its folder there.
        path: the folder on this machine of its small files.
    """

    def __init__(self, remote: Remote, sizes: Mapping[str, int], folder: str, here: Path) -> None:
        """Read what an entry says of itself.

        Args:
            remote: where it is.
            sizes: bytes of all files there.
            folder: its folder there.
            here: a folder for small files, which lie as they do there.

        Raises:
            EntryError: that is damaged, altered, of a newer version, or of another entry than the
                folder's name says.
            HubError: the Hub refuses, or does not answer.
            StorageError: another place does.
        """
        self.remote, self.folder = remote, folder
        self.named = self.path = here / folder
        self._here, self._sizes = here, sizes
        self._split: Split | None = None
        manifest = f"{folder}/{MANIFEST}"
        self._withheld = None
        if f"{folder}/{EXAMPLES}" not in sizes:
            inside = (n.removeprefix(f"{folder}/") for n in sizes if n.startswith(f"{folder}/"))
            self._withheld = next(filter(withheld_sum, inside), None)
        with self._told():
            if sizes[manifest] > LARGEST:
                raise EntryError(f"{here / manifest} is larger than any manifest. {REMEDY}")
            write_whole(here / manifest, remote.read(manifest, 0, sizes[manifest]))
            self.manifest, self.manifest_text = self.sealed_manifest()
        if folder_of(self.manifest) != folder:
            raise EntryError(
                f"{remote}: {folder} holds another entry, {folder_of(self.manifest)!r:.200}."
            )
        files = dict(self.manifest.files)
        if self._withheld is not None:
            del files[EXAMPLES]
            self.manifest = replace(self.manifest, files=files)

    @property
    def withheld(self) -> bool:
        """Whether its text was left out."""
        return self._withheld is not None

    @property
    def small_nbytes(self) -> int:
        """Bytes of what is downloaded before chunks are."""
        return sum(self._sizes[name] for name in self._small if name != self._hdf5)

    def download_labels(self) -> None:
        """Download the labels that lie beside it; what is none is left out, which is said.

        Raises:
            HubError: the Hub refuses, or does not answer.
            StorageError: another place does.
        """
        for name in labels_at(self.folder, self.manifest, self._sizes):
            write_whole(self._here / name, self.remote.read(name, 0, self._sizes[name]))
            try:
                with self._told():
                    read_labels(self._here / name)
            except EntryError as error:
                logger.warning("left out: %s", error)
                (self._here / name).unlink()

    def download(self, split: Split | None = None) -> None:
        """Download all but labels and chunks, and check it.

        Args:
            split: the text of an entry that was pushed without.

        Raises:
            EntryError: a file is missing, or not as it was pushed.
            HubError: the Hub refuses, or does not answer.
            StorageError: another place does; or there is no room for the small files.
        """
        self._split = split
        advice = "set TMPDIR to a folder that has room"
        check_room(self._here, self.small_nbytes, "this transfer", advice)
        with self._told():
            for name in self._small:
                if name == self._hdf5:
                    self._lay_out(name)
                else:
                    write_whole(self._here / name, self.remote.read(name, 0, self._sizes[name]))
            self.small_files()
            self.outlines()
            _ = self.examples, self._chunk_sums

    @cached_property
    def examples(self) -> ExampleTable:
        """The example table, with the text that was put back."""
        if self._split is None:
            return read_examples(self.path, self.manifest)
        file = self.path / str(self._withheld)
        return restore(file, self._split, {spec.name: spec.rows for spec in self.manifest.arrays})

    def chunk(self, chunk_sum: ChunkSum) -> bytes:
        """Return a chunk, by its checksum.

        Raises:
            EntryError: it is damaged.
            HubError: the Hub refuses, or does not answer.
            StorageError: another place does.
        """
        chunks, at = self.places[chunk_sum.array], (chunk_sum.row_chunk, chunk_sum.layer_index)
        name = Path(chunks.files[chunks.file_index[at]]).relative_to(self._here).as_posix()
        start = int(chunks.offsets[at])
        if name not in self._sizes:
            raise EntryError(f"{self.remote}: {name} is missing. {PUSH_AGAIN}")
        data = self.remote.read(name, start, chunk_sum.nbytes)
        if checksum(data) != chunk_sum.xxh128:
            raise EntryError(
                f"{self.remote}: {name} is damaged at byte {start}: expected checksum "
                f"{chunk_sum.xxh128[:12]}, found {checksum(data)[:12]}. {PULL_AGAIN}"
            )
        return data

    def check_standing(self) -> None:
        """Do nothing: chunks of another entry have other checksums."""

    @cached_property
    def _small(self) -> list[str]:
        """Paths at the place of what is not chunks alone; each is there, in its size."""
        for file, sums in self.manifest.files.items():
            name = f"{self.folder}/{file}"
            held = self._sizes.get(name)
            if held is None:
                raise EntryError(f"{self.remote}: {name} is missing. {PUSH_AGAIN}")
            if held != sums["nbytes"]:
                raise EntryError(
                    f"{self.remote}: {name} has {held:,} bytes, expected {sums['nbytes']:,}. "
                    f"{PUSH_AGAIN}"
                )
        withheld = [] if self._withheld is None else [self._withheld]
        return [f"{self.folder}/{file}" for file in (*self.manifest.files, *withheld)]

    @property
    def _hdf5(self) -> str:
        return f"{self.folder}/{Hdf5File.filename}"

    def _lay_out(self, name: str) -> None:
        """Write what an HDF5 file holds besides chunks, with room for these."""
        size, file = self._sizes[name], self._here / name
        source = io.BufferedReader(_Reader(self.remote, name, size), 2**16)
        plain = (array for spec in self.manifest.arrays for array in spec.plain())
        chunks = [Hdf5File().places(file, array, source) for array in plain]
        spans = chunk_spans(chunks)[str(file)]
        besides = size - sum(last - first for first, last in spans)
        if besides > _BESIDES_BYTES + size // 4:
            raise EntryError(f"{file} holds {besides:,} bytes that belong to no chunk. {REMEDY}")
        FileOutline(size, tuple(parts_between(source, spans, size))).write(file)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Name the place in errors, and not the copy of a small file that lies here."""
        try:
            yield
        except EntryError as error:
            message = str(error).replace(str(self._here), str(self.remote))
            for remedy in (EXTRACT_AGAIN, REMEDY):
                message = message.replace(remedy, PUSH_AGAIN)
            raise type(error)(message) from error


class _Reader(io.RawIOBase):
    """A file at a place as one that can be sought in."""

    def __init__(self, remote: Remote, name: str, nbytes: int) -> None:
        self._remote, self._name, self._nbytes, self._at = remote, name, nbytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._nbytes)[whence]
        return self._at

    def readinto(self, into: Any) -> int:
        wanted = min(len(into), max(self._nbytes - self._at, 0))
        data = self._remote.read(self._name, self._at, wanted)
        into[: len(data)] = data
        self._at += len(data)
        return len(data)
