"""An entry on its way from a repository into a cache: downloaded, verified, built, labelled."""

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath

import pyarrow as pa

from probekit.base.replacing import remove_left
from probekit.errors import EntryError
from probekit.extraction.drafting import write_split_labels
from probekit.extraction.maintenance.entry_part import part_table
from probekit.extraction.transport.incoming_entry import IncomingEntry
from probekit.extraction.transport.remote_files import (
    PULL_AGAIN,
    PUSH_AGAIN,
    check_staging,
    pushed_errors,
)
from probekit.extraction.transport.transport_form import LayerFile, label_path
from probekit.extraction.transport.withheld_text import restore
from probekit.store.builder import EntryBuilder
from probekit.store.checksums import read_checksums
from probekit.store.entry import Entry
from probekit.store.files import read_span, storage_errors, write_whole
from probekit.store.labels import read_labels
from probekit.store.layout import CHECKSUMS, EXAMPLES, labels_folder
from probekit.store.lock import tidy
from probekit.store.marks import ChunkSum, checksum
from probekit.store.tables import EXAMPLE_SCHEMA, OPTIONAL_SCHEMA, ExampleTable, read_table
from probekit.tasks import Split, Task

logger = logging.getLogger(__name__)


class Arrival:
    """One entry on its way into the cache."""

    def __init__(
        self,
        one: IncomingEntry,
        text: tuple[Split, Task] | None,
        report: Callable[[int | str], None],
    ) -> None:
        self._one, self._text, self._report = one, text, report

    def bring(self) -> Entry:
        """Bring the entry, then its labels."""
        path = self._one.path
        if self._one.complete:
            tidy(path)
            logger.info("%s: complete already", path)
            entry = Entry.open(path)
            with tempfile.TemporaryDirectory(prefix="probekit-pull-") as temporary:
                labels = self._labels(Path(temporary))
        else:
            entry, labels = self._build()
        self._keep_labels(entry, labels)
        return entry

    def _build(self) -> tuple[Entry, dict[str, bytes]]:
        """Make the entry; return it with its labels, which are not beside it yet."""
        one = self._one
        one.check_room()
        with EntryBuilder(one.path, plan=one.plan) as builder:
            with builder.staging() as here, storage_errors(here):
                check_staging(here, one.largest)
                table = part_table(self._examples(here), one.manifest)
                self._copy_units(builder, here)
                kept = {PurePosixPath(name).name: self._read(name, here) for name in one.backbone}
                labels = self._labels(here)
            return builder.complete(one.manifest, table, kept), labels

    def _copy_units(self, builder: EntryBuilder, here: Path) -> None:
        """Download the files of chunks that are not in the building yet, unit by unit."""
        sums = self._checksums(here)
        for unit, files in enumerate(self._one.units):
            if unit in builder.marks:
                self._report(sum(file.nbytes for file in files))
                continue
            paths = [self._fetch(file.name, here) for file in files]
            layers = [self._chunks(*pair, sums) for pair in zip(files, paths, strict=True)]
            try:
                # all layers of a chunk of rows together: they may be one object
                builder.copy_unit(unit, chain.from_iterable(zip(*layers, strict=True)))
            except EntryError:
                _remove(paths)  # so that the next pull loads them again
                raise
            _remove(paths)

    def _fetch(self, name: str, here: Path) -> Path:
        """Download a file of the entry; bytes that were there before are reported as well."""
        came = 0

        def count(nbytes: int) -> None:
            nonlocal came
            came += nbytes
            self._report(nbytes)

        self._report(name)
        path = self._one.found.remote.fetch(f"{self._one.found.folder}/{name}", here, count)
        self._report(path.stat().st_size - came)
        return path

    def _read(self, name: str, here: Path) -> bytes:
        """Return the bytes of a small file, if they are those that were pushed."""
        path = self._fetch(name, here)
        try:
            return self._one.small[name].check(path.read_bytes(), self._one.where(name))
        except EntryError:
            path.unlink()  # so that the next pull loads it again
            raise

    def _examples(self, here: Path) -> pa.Table:
        """Return the example table of the whole entry, with its text."""
        self._read(EXAMPLES, here)
        file, where = here / self._one.found.folder / EXAMPLES, self._one.where(EXAMPLES)
        with pushed_errors():
            if self._text is None:
                table = read_table(file, EXAMPLE_SCHEMA, OPTIONAL_SCHEMA)
            else:
                table = restore(file, self._text[0], where)
            rows = {spec.name: spec.rows for spec in self._one.found.manifest.arrays}
            ExampleTable(table).check(rows, where)
        return table

    def _checksums(self, here: Path) -> dict[tuple[str, int, int], ChunkSum]:
        """Return the checksum of every chunk of the whole entry, by its place."""
        self._read(CHECKSUMS, here)
        found = self._one.found
        with pushed_errors():
            listed = read_checksums(here / found.folder, found.manifest)
        return {(c.array, c.row_chunk, c.layer_index): c for c in listed}

    def _chunks(
        self, file: LayerFile, path: Path, sums: Mapping[tuple[str, int, int], ChunkSum]
    ) -> Iterator[tuple[ChunkSum, Callable[[], bytes]]]:
        """Yield the chunks of a file at their places in what is made, each with what reads it."""
        before = file.array.layers.index(file.layer)
        at = self._one.manifest.array(file.array.name).layers.index(file.layer)
        where, start = self._one.where(file.name), 0
        for plain, row_chunk in file.chunks:
            told = sums[plain.name, row_chunk, before]
            yield replace(told, layer_index=at), partial(_read_chunk, path, start, told, where)
            start += told.nbytes

    def _labels(self, here: Path) -> dict[str, bytes]:
        """Return the label files by their names, checked to be some of this text.

        Raises:
            EntryError: one is none, or of another text.
        """
        found, manifest = {}, self._one.found.manifest
        for name in self._one.found.form.labels:
            found[name] = self._read(label_path(name), here)
            with pushed_errors():
                file = read_labels(here / self._one.found.folder / label_path(name)).file
            if file.of != (manifest.split, manifest.request["text"]):
                raise EntryError(
                    f"{self._one.where(label_path(name))} labels another text. {PUSH_AGAIN}"
                )
        return found

    def _keep_labels(self, entry: Entry, labels: Mapping[str, bytes]) -> None:
        """Write labels beside an entry; a version of them that is there stays."""
        folder = labels_folder(entry.path)
        remove_left(folder)
        with storage_errors(folder):
            for name, data in labels.items():
                if not (folder / name).exists():
                    write_whole(folder / name, data)
        if self._text is not None:
            write_split_labels(entry.path, entry.manifest.request["text"], *self._text)


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink()


def _read_chunk(path: Path, start: int, told: ChunkSum, where: str) -> bytes:
    """Return a chunk of a layer file.

    Raises:
        EntryError: it is not as it was pushed.
    """
    data = read_span(str(path), start, told.nbytes)
    if checksum(data) != told.xxh128:
        raise EntryError(
            f"{where} is damaged at byte {start}: expected checksum {told.xxh128[:12]}, found "
            f"{checksum(data)[:12]}. {PULL_AGAIN}"
        )
    return data
