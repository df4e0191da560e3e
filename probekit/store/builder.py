"""The write side: build an entry unit by unit, resume it after a kill, seal it."""

import logging
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from jaxtyping import Float
from torch import Tensor

from probekit.base.fingerprint import canonical_json, digest
from probekit.base.registry import choose
from probekit.errors import EntryError, StorageError
from probekit.store import layout
from probekit.store.backends import BACKENDS, ChunkWriter
from probekit.store.checksums import ChunkSum, damaged_chunks, other_files
from probekit.store.codec import cut_pieces, write_copied_chunks, write_pieces
from probekit.store.entry import Entry
from probekit.store.files import remove_path, storage_errors, write_whole
from probekit.store.layout import ArraySpec
from probekit.store.lock import EntryLock, install
from probekit.store.manifest import Manifest
from probekit.store.tables import CHECKSUM_SCHEMA, example_schema, table_bytes
from probekit.store.unfinished import (
    Draft,
    UnitMark,
    check_laid,
    check_resumable,
    is_drafted,
    note_laid,
    read_marks,
    recover,
    refuse_foreign,
    unfinished_plan,
)
from probekit.store.verified import FileOutline

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Share:
    """What one of several processes builds of an entry.

    Attributes:
        shard: its place among them, ``2-of-4``: no two that build an entry at once have the same.
        units: the units that it writes, and no other one does.
    """

    shard: str
    units: frozenset[int]


class EntryBuilder:
    """Builds one entry in ``<path>.partial`` under a lock; a context manager.

    Leaving the context, or `close`, keeps what is finished; the next builder with the same plan
    resumes from there.

    Attributes:
        path: the entry's final folder.
        partial: the folder it is built in.
        arrays: the arrays of the plan by name.
        marks: the units that are written and marked, those of earlier runs included.
    """

    def __init__(
        self,
        path: Path,
        *,
        plan: Mapping[str, Any],
        overwrite: bool = False,
        restart: bool = False,
        share: Share | None = None,
        draft: Callable[[], Draft] | None = None,
        outlines: Mapping[str, FileOutline] | None = None,
    ) -> None:
        """Lock an entry, and start or resume building it.

        Args:
            path: the entry's final folder.
            plan: what every unit must share, as JSON values. Must hold ``arrays`` (a list of
                `ArraySpec.to_json`), ``backend`` (a name) and ``units`` (a list, one item per
                unit).
            overwrite: build a new entry although a complete one exists; that one stays readable
                until the new one takes its place.
            restart: throw away what an unfinished build with another plan has finished.
            share: what this process builds of it, beside others; None is all.
            draft: returns what whoever seals the entry is to put into it besides rows; it is kept
                with what is begun, where none is yet.
            outlines: of another entry's store, which this one's then is byte for byte: its files
                without their chunks, by their path in the entry.

        Raises:
            EntryLockedError: another process builds the same entry, or the same share of it.
            EntryError: the entry is complete already, and ``overwrite`` is not set; or units of
                another plan are finished, and ``restart`` is not set.
            StorageError: the folder cannot be written.
        """
        self.path = path
        self.partial = layout.beside(path, layout.PARTIAL)
        self.arrays = {spec.name: spec for spec in map(ArraySpec.from_json, plan["arrays"])}
        self.marks: dict[int, UnitMark] = {}
        self._n_units = len(plan["units"])
        self._nbytes = sum(spec.nbytes for spec in self.arrays.values())
        self._backend = choose("backend", plan["backend"], BACKENDS)
        self._store = self.partial / self._backend.filename
        self._units_folder = self.partial / layout.UNITS
        self._outlines = outlines
        self._plain = [plain for spec in self.arrays.values() for plain in spec.plain()]
        self._share = share
        self._lock = EntryLock(path, None if share is None else share.shard)
        try:
            recover(path)
            if (path / layout.MANIFEST).exists() and not overwrite:
                raise EntryError(f"{path} is complete. Extract with --overwrite to replace it.")
            refuse_foreign(path)
            with storage_errors(self.partial, self._nbytes):
                self._writer = self._prepare(plan, restart=restart)
                if draft is not None and not is_drafted(self.partial):
                    draft().write(self.partial)
            if share is not None:
                self._lock.for_share()
        except BaseException:
            self._lock.release()
            raise

    @property
    def left(self) -> list[int]:
        """The units that are not written yet, ascending."""
        return sorted(set(range(self._n_units)) - self.marks.keys())

    @property
    def nbytes_left(self) -> int:
        """Bytes of chunks still to be written."""
        done = (chunk.nbytes for mark in self.marks.values() for chunk in mark.chunks)
        return self._nbytes - sum(done)

    def write_unit(
        self,
        unit: int,
        row_start: Mapping[str, int],
        blocks: Mapping[str, Float[Tensor, "layers _ dim"]],
        stats: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the chunks of one unit, then mark it done.

        Args:
            unit: index in the plan's ``units``.
            row_start: first row of the unit per array, a multiple of the array's chunk rows.
            blocks: rows of the unit per array, (layers as in the spec, rows, dim); the tail of
                the last chunk becomes zeros. May be used again when this returns.
            stats: JSON values kept with the mark.

        Raises:
            StateRangeError: a value is non-finite or too large for the stored dtype.
            StorageError: no space left, or no permission.
        """
        self._check_open(unit)
        with storage_errors(self.partial, self.nbytes_left):
            pieces = [
                piece
                for name, block in blocks.items()
                for piece in cut_pieces(self.arrays[name], row_start[name], block)
            ]
            self._mark(unit, write_pieces(self._writer, pieces), stats)

    def copy_unit(
        self,
        unit: int,
        chunks: Iterable[tuple[ChunkSum, Callable[[], bytes]]],
        stats: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the chunks of one unit as another entry has them stored, then mark it done.

        Before it is marked, what was written is read back and compared with the checksums.

        Args:
            unit: index in the plan's ``units``.
            chunks: place and checksum of each, and what reads its bytes, on several threads.
            stats: JSON values kept with the mark.

        Raises:
            EntryError: one cannot be read, as what reads it says.
            StorageError: no space left, or no permission; or what was written reads back otherwise.
        """
        self._check_open(unit)
        with storage_errors(self.partial, self.nbytes_left):
            self._mark(unit, write_copied_chunks(self._writer, chunks), stats)

    def complete(self, manifest: Manifest, examples: pa.Table, files: Mapping[str, bytes]) -> Entry:
        """Seal the entry: tables, small files, manifest last, everything on disk, rename.

        Args:
            manifest: describes this entry; its arrays and backend are those of the plan.
            examples: the example table (`ExampleTable.table`).
            files: contents of ``backbone/`` by file name.

        Raises:
            EntryError: units are missing, or the manifest describes other arrays.
            StorageError: no space left, or no permission.
        """
        chunks = self._written()
        if manifest.arrays != tuple(self.arrays.values()) or manifest.backend != self._backend.name:
            raise EntryError(f"{self.partial}: the manifest describes other arrays than the plan.")
        sums = pa.Table.from_pylist([*map(asdict, sorted(chunks, key=astuple))], CHECKSUM_SCHEMA)
        examples = examples.cast(example_schema(examples.column_names))
        tables = {layout.CHECKSUMS: table_bytes(sums), layout.EXAMPLES: table_bytes(examples)}
        kept = {f"{layout.BACKBONE}/{name}": data for name, data in files.items()}
        return self._seal({**tables, **kept}, lambda sums: replace(manifest, files=sums).to_json())

    def complete_as(self, manifest: str, files: Mapping[str, bytes]) -> Entry:
        """Seal the entry as another one is sealed, byte for byte, and check every file of it.

        Args:
            manifest: the text of its manifest, which describes the arrays of the plan.
            files: contents of all its other files outside of the store, by their path.

        Raises:
            EntryError: units are missing, or others were written than the manifest describes.
            StorageError: no space left, or no permission; or what was written reads back otherwise.
        """
        listed = Manifest.from_json(manifest, str(self.partial)).files
        self._written()

        def compared(sums: Mapping[str, Mapping[str, Any]]) -> str:
            if odd := sorted(n for n in {*sums, *listed} if sums.get(n) != listed.get(n)):
                raise StorageError(
                    f"{self.partial / odd[0]} does not read back as it was written: the disk "
                    "loses data. Choose another disk."
                )
            return manifest

        return self._seal(files, compared)

    def _seal(
        self, files: Mapping[str, bytes], manifest: Callable[[Mapping[str, Mapping[str, Any]]], str]
    ) -> Entry:
        """Write all but the chunks, the manifest last, put everything on the disk, and rename.

        Args:
            files: contents of all files outside of the store but the manifest, by their path.
            manifest: returns its text, given size and checksum of every file that it lists.
        """
        with storage_errors(self.partial, self.nbytes_left):
            self._writer.sync()
            places = self._writer.places.values()
            if self._outlines is None:
                check_laid(self.partial, places)
            (self.partial / layout.BACKBONE).mkdir(exist_ok=True)
            for name, data in files.items():
                write_whole(self.partial / name, data)
            text = manifest(other_files(self.partial, places))
            write_whole(self.partial / layout.MANIFEST, text.encode())
            install(self.partial, self.path)
            # Only now: a kill before the rename must find the units done.
            shutil.rmtree(self.path / layout.BUILDING)
            self.close()
        return Entry.open(self.path)

    def _written(self) -> list[ChunkSum]:
        """Return the checksums of all chunks.

        Raises:
            EntryError: units are missing, or have not written every chunk once.
        """
        self.check_whole()
        chunks = [chunk for mark in self.marks.values() for chunk in mark.chunks]
        written = {chunk.at for chunk in chunks}
        expected = sum(spec.n_chunks for spec in self.arrays.values())
        if not len(written) == len(chunks) == expected:
            raise EntryError(
                f"{self.partial}: expected units to write each of {expected} chunks once, found "
                f"{len(chunks)} writes of {len(written)} chunks. Extract with --overwrite."
            )
        return chunks

    def _mark(
        self, unit: int, chunks: tuple[ChunkSum, ...], stats: Mapping[str, Any] | None
    ) -> None:
        mark = UnitMark(unit, chunks, dict(stats or {}))
        mark.write(self._units_folder)
        self.marks[unit] = mark

    def check_whole(self) -> None:
        """Check that every unit is written.

        Raises:
            EntryError: some are not.
        """
        if left := self.left:
            raise EntryError(
                f"{self.partial}: {len(left)} of {self._n_units} units are not written (first: "
                f"{left[0]}). Run the same command again (with --shard, every one that is not "
                "done): it resumes."
            )

    def join(self) -> Entry | None:
        """Go from this share to the whole: take the entry's lock, and learn what others wrote.

        Returns:
            the entry, where another process has sealed it meanwhile; None where it is to be, as
            soon as there is nothing `left`.

        Raises:
            EntryLockedError: another process holds the entry's lock for long.
            EntryError: neither the entry nor what was begun of it is there any more.
        """
        self._lock.for_all()
        if not self.partial.exists():
            return Entry.open(self.path)
        self.marks = read_marks(self._units_folder)
        return None

    def discard(self) -> None:
        """Stop building and remove what was built: it can never become an entry."""
        remove_path(self.partial)
        self.close()

    def close(self) -> None:
        """Stop building, keep what is done, and give the lock back."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _prepare(self, plan: Mapping[str, Any], *, restart: bool) -> ChunkWriter:
        """Resume what is there if it has the same plan and is not torn, else start clean."""
        if not restart:
            check_resumable(self.path, plan)
        begun = unfinished_plan(self.path)
        if begun is not None and digest(begun) == digest(plan):
            try:
                return self._resume()
            except EntryError as error:  # the plan was on the disk before what it plans
                logger.warning("%s is incomplete (%s); starting over", self.partial, error)
        elif self.partial.exists():
            logger.warning("%s: starting over", self.partial)
        if self.partial.exists():
            self._lock.refuse_shards()
            remove_path(self.partial)
        self._units_folder.mkdir(parents=True)
        if self._outlines is None:
            self._backend.create(self._store, self._plain)
        else:
            for name, outline in self._outlines.items():
                outline.write(self.partial / name)
        writer = self._backend.open_writer(self._store, self._plain)
        note_laid(self.partial, writer.places.values())
        # Last: a plan on disk says that everything above is whole.
        write_whole(self.partial / layout.PLAN, canonical_json(dict(plan)).encode())
        return writer

    def _resume(self) -> ChunkWriter:
        """Take over the marked units whose bytes are what their marks say.

        A killed process leaves them so; a machine that lost power may not. Of what others build,
        their own next run finds out.

        Raises:
            EntryError: the store itself is torn.
        """
        writer = self._backend.open_writer(self._store, self._plain)
        self._units_folder.mkdir(parents=True, exist_ok=True)
        marks = read_marks(self._units_folder)
        mine = marks if self._share is None else marks.keys() & self._share.units
        owner = {chunk: unit for unit in mine for chunk in marks[unit].chunks}
        torn = {owner[damage.chunk] for damage in damaged_chunks(owner, writer.places)}
        for unit in torn:
            (self._units_folder / f"{unit:06d}.json").unlink()
        self.marks = {unit: mark for unit, mark in marks.items() if unit not in torn}
        logger.info("resuming %s: %d of %d units done", self.path, len(self.marks), self._n_units)
        return writer

    def _check_open(self, unit: int) -> None:
        if unit in self.marks or not 0 <= unit < self._n_units:
            raise ValueError(f"unit {unit} is done already or not one of {self._n_units}")
