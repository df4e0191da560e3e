"""Store an entry in another format or dtype, without the model that it is of.

The key of an entry names its numbers. So one that is converted has the key of an extraction only
where its numbers are those that the extraction would have stored: where the rows were rounded
before, ``request.through`` says to which dtype. Rows are rounded once more at most.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.fingerprint import digest
from probekit.base.kinds import ARRAYS
from probekit.base.machine import usable_cores
from probekit.base.numbers import ragged_arange
from probekit.base.registry import PathName, choose
from probekit.data.encoded import Pooling
from probekit.errors import EntryError, OptionError, StateRangeError
from probekit.extraction.compute import LayerStatistics, writer_thread
from probekit.extraction.maintenance.entry_copy import EntryCopy, make_entries, place_of
from probekit.extraction.maintenance.parts import CopiedRows
from probekit.extraction.plan import Unit, example_row_starts, lay_out, row_dtypes, unit_share
from probekit.store.backends import BACKENDS
from probekit.store.builder import EntryBuilder
from probekit.store.codec import READ_DTYPES, TORCH_DTYPES, decode_chunk, fits
from probekit.store.files import typed_path
from probekit.store.layout import FEATURE_DTYPES, ArraySpec, FeatureDtype
from probekit.store.manifest import Manifest, read_manifest
from probekit.store.mapping import check_mappable
from probekit.store.tables import STARTS
from probekit.store.verified import VerifiedEntry

logger = logging.getLogger(__name__)

_MOST_DECODED = 4  # at a time: torch gives each thread helpers of its own

_FORM = ("format", "dtype", "through")
"""What a request says of how rows are stored."""


def convert_entries(
    sources: Sequence[PathName],
    *,
    format: str | None = None,
    dtype: str | None = None,
    root: PathName | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Iterator[tuple[EntryCopy, bool]]:
    """Convert entries; yield each that is made with whether it was there already.

    It works as it is iterated, as `make_entries` does. Of several, those that are in that form are
    left alone, and of those that differ in how rows are stored alone, the one that holds them best
    is converted.

    Args:
        sources: the entries' folders.
        format: storage backend, ``zarr`` or ``hdf5``; as it is if None.
        dtype: stored dtype, or ``auto``; as it is if None.
        root: the cache root that gets the entries; that of each if None.
        overwrite: replace entries that are there.
        progress: show progress on stderr.

    Raises:
        ProbekitError: as `plan_conversion` and `EntryCopy.apply`.
    """
    to = None if root is None else typed_path(root)
    planned = [
        plan_conversion(path, format=format, dtype=dtype, root=to, overwrite=overwrite)
        for path in _useful([*map(typed_path, sources)], format, dtype)
    ]
    yield from make_entries(planned, "this conversion", progress=progress)


def plan_conversion(
    path: Path,
    *,
    format: str | None = None,
    dtype: str | None = None,
    root: Path | None = None,
    overwrite: bool = False,
) -> EntryCopy:
    """Plan to store an entry in another form; nothing is written yet.

    Args:
        path: the entry's folder.
        format: storage backend, ``zarr`` or ``hdf5``; as it is if None.
        dtype: stored dtype, or ``auto`` as in an extraction; as it is if None.
        root: the cache root that gets the entry; that of ``path`` if None.
        overwrite: replace an entry, or throw away a begun one, that is there.

    Raises:
        OptionError: nothing is to change, rows would be rounded for a third time, ``auto`` cannot
            be known, or a process could not map so many files.
        UnknownNameError: there is no such format or dtype.
        StateRangeError: a layer has values that the dtype does not hold.
        EntryLockedError: a process is writing the entry.
        EntryNotFoundError: there is no such entry.
        EntryError: it is unfinished or damaged, or another one is in the way.
    """
    if format is not None:
        choose("format", format, BACKENDS)
    if dtype is not None:
        choose("stored dtype", dtype, dict.fromkeys(("auto", *FEATURE_DTYPES)))
    source = VerifiedEntry(path)
    before, asked = source.manifest, source.manifest.request
    format, dtype = format or before.backend, dtype or cast(str, asked.get("dtype"))
    if (format, dtype) == (before.backend, asked.get("dtype")):
        raise OptionError(
            f"{path} is already {dtype} in {format}. Give another --format or --dtype; `probekit "
            "cache copy` copies it as it is."
        )
    stored = _settled_dtype(source, dtype)
    recoded = None if stored == before.dtype else RecodedRows.of(source, stored)
    arrays = before.arrays if recoded is None else tuple(recoded.arrays.values())
    if format != before.backend:
        check_mappable(BACKENDS[format], arrays)
    request = {**asked, "format": format, "dtype": dtype}
    statistics = before.statistics
    if recoded is not None:
        request |= _rounded_to(before)
        statistics = {**statistics, "max_abs": recoded.told_largest()}
    manifest = replace(
        before,
        key=digest(request),
        request=request,
        backend=format,
        dtype=stored,
        arrays=arrays,
        statistics=statistics,
        extra={**before.extra, "converted_from": before.key},
        files={},
    )
    to = place_of(root, path, manifest.key, overwrite=overwrite, same=True)
    rows = recoded or CopiedRows(source, manifest)
    return EntryCopy(source, manifest, rows, to, overwrite, "cache convert")


def is_exact(manifest: Manifest) -> bool:
    """Say whether an entry holds its rows as the model computed them, without any rounding."""
    if manifest.request.get("through"):
        return False
    return all(
        spec.dtype != "int8"
        and TORCH_DTYPES[spec.dtype] in (torch.float32, _computed(spec, manifest)[0])
        for spec in manifest.arrays
    )


def _rounded_to(manifest: Manifest) -> dict[str, list[str]]:
    """Return what the request of an entry in another dtype says of how this one was rounded.

    Raises:
        OptionError: it was rounded by a conversion already, or to int8.
    """
    if is_exact(manifest):
        return {}
    before = manifest.request.get("through")
    if before or manifest.dtype == "int8":
        rounded = " and then ".join([*(before or ()), manifest.dtype])
        raise OptionError(
            f"the rows of entry {manifest.key[:8]} are already rounded to {rounded}, and would be "
            "rounded again. Convert the entry that holds them best (`probekit cache ls`), or "
            "extract again with the --dtype that you want."
        )
    return {"through": [manifest.dtype]}


def _settled_dtype(source: VerifiedEntry, dtype: str) -> FeatureDtype:
    """Return what is stored; for ``auto`` what an extraction chooses, by its largest unit.

    Raises:
        OptionError: nothing tells any more what that is.
    """
    manifest = source.manifest
    if dtype != "auto":
        return cast(FeatureDtype, dtype)
    if manifest.request.get("dtype") == "auto":
        return cast(FeatureDtype, manifest.dtype)
    if manifest.dtype == "float16" and not manifest.request.get("through"):
        return "float16"
    if not is_exact(manifest):
        raise OptionError(
            f"--dtype auto needs the values as computed, but entry {manifest.key[:8]} holds them "
            f"rounded to {manifest.dtype}. Choose --dtype float16, bfloat16, float32 or int8."
        )
    rows = RecodedRows.of(source, "float16")
    largest = rows.as_gathered(rows.largest()).values()
    fit = all(fits("float16", value) for values in largest for value in values)
    return "float16" if fit else "bfloat16"


def _computed(spec: ArraySpec, manifest: Manifest) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype of an array's rows as the model has them, and that of gathering them."""
    if spec.name not in ARRAYS:
        return torch.float32, torch.float32
    pooling = cast(Pooling, manifest.pooling)
    return row_dtypes(spec, TORCH_DTYPES[manifest.compute_dtype], pooling)


def _useful(sources: Sequence[Path], format: str | None, dtype: str | None) -> list[Path]:
    """Leave out, of several entries, those that are in a form or less exact than another one."""
    if len(sources) < 2:
        return list(sources)
    best: dict[str, tuple[tuple[bool, ...], Path]] = {}
    for path in sources:
        manifest = read_manifest(path)
        request = manifest.request
        form = manifest.backend, request.get("dtype")
        if form == (format or form[0], dtype or form[1]):
            logger.info("left alone: %s is already %s in %s", path, form[1], form[0])
            continue
        # what is not to change tells them apart
        same: list[Any] = [str(path.parent), manifest.split, form[0] if format is None else ""]
        same.append(form[1] if dtype is None else "")
        asked = {name: value for name, value in request.items() if name not in _FORM}
        held = (
            is_exact(manifest),
            not request.get("through"),
            manifest.dtype != "int8",
            manifest.dtype == "float16",
        )
        group = digest([same, asked])
        if group not in best or held > best[group][0]:
            best[group] = held, path
    return [path for _, path in best.values()]


@dataclass(frozen=True, kw_only=True, eq=False)
class RecodedRows:
    """The rows of an entry, to be stored in another dtype.

    A dtype of another width has chunks of other rows, so units and first rows are others as well:
    they are laid out anew, as an extraction lays them out.

    Attributes:
        source: the entry.
        arrays: its arrays by name, as they are to be stored.
        laid_out: the units of these, in data-set order.
        counts: per array, the rows of each example.
    """

    source: VerifiedEntry
    arrays: Mapping[str, ArraySpec]
    laid_out: Sequence[Unit]
    counts: Mapping[str, Int64[np.ndarray, " examples"]]

    @classmethod
    def of(cls, source: VerifiedEntry, dtype: FeatureDtype) -> "RecodedRows":
        """Lay out an entry in another dtype.

        Raises:
            EntryError: the entry has an array that no extraction makes, or its table does not say
                where an array's rows are.
        """
        examples, manifest = source.examples, source.manifest
        by_what = {
            "word": examples.n_rows.astype(np.int64),
            "prediction": examples.n_rows.astype(np.int64),
            "subword": examples.n_token_rows,
            "text": np.ones(len(examples), np.int64),
        }
        counts = {}
        for spec in manifest.arrays:
            if spec.name not in ARRAYS:
                raise EntryError(f"{source.path}: array {spec.name!r} is of an unknown kind.")
            counts[spec.name] = by_what[ARRAYS[spec.name].per]
            if ((examples.starts(spec.name) < 0) & (counts[spec.name] > 0)).any():
                raise EntryError(
                    f"{source.path}: its examples do not say where their rows of {spec.name} are."
                )
        arrays, units = lay_out(
            counts,
            {spec.name: spec.layers for spec in manifest.arrays},
            {spec.name: spec.dim for spec in manifest.arrays},
            dtype,
            unit_share(int(examples.n_tokens.sum()), manifest.n_blocks, manifest.dim),
        )
        return cls(source=source, arrays=arrays, laid_out=units, counts=counts)

    @property
    def units(self) -> list[list[int]]:
        """First example of each unit, and one past its last."""
        return [[unit.start, unit.stop] for unit in self.laid_out]

    def write(self, builder: EntryBuilder, report: Callable[[int], object]) -> None:
        """Write the units that are not marked yet, the next one read while one is written.

        Args:
            builder: of the entry that is made.
            report: receives the bytes of chunks that are there, unit by unit.

        Raises:
            EntryError: a chunk is damaged.
            StateRangeError: a value does not fit the dtype.
            StorageError: there is no room left.
        """

        def nbytes(unit: Unit) -> int:
            return sum(
                unit.chunks[name] * plain.chunk_nbytes * plain.grid[1]
                for name, spec in self.arrays.items()
                for plain in spec.plain()
            )

        def write(item: tuple[Unit, dict[str, Any]]) -> None:
            unit, blocks = item
            builder.write_unit(unit.index, unit.row_start, blocks)
            report(nbytes(unit))

        try:
            with writer_thread(write) as put:
                for unit in self.laid_out:
                    if unit.index in builder.marks:
                        report(nbytes(unit))
                    else:
                        put((unit, self._read(unit)))
        except StateRangeError:
            builder.discard()  # going on would meet the same value again
            raise

    def largest(self) -> dict[str, tuple[float, ...]]:
        """Return the largest |x| of each layer, per array, in the unit with most subwords."""
        tokens = self.source.examples.n_tokens.astype(np.int64)
        unit = max(self.laid_out, key=lambda unit: int(tokens[unit.start : unit.stop].sum()))
        blocks = self._read(unit, exact=True)
        return {name: LayerStatistics.of(block).max_abs for name, block in blocks.items()}

    def as_gathered(self, largest: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
        """Return the largest |x| of layers as an extraction in the new dtype measures them.

        Rounding keeps the order of numbers, so the largest of rounded ones is the largest, rounded.

        Args:
            largest: of each layer, per array, as they are.
        """
        manifest = self.source.manifest
        gathered = {name: _computed(self.arrays[name], manifest)[1] for name in largest}
        return {
            name: torch.tensor(values, dtype=torch.float64).to(gathered[name]).tolist()
            for name, values in largest.items()
        }

    def told_largest(self) -> dict[str, list[float]]:
        """Return the largest |x| that the new manifest tells, of each layer per array.

        Raises:
            StateRangeError: a layer has values that the new dtype cannot hold.
        """
        before = self.source.manifest
        exact = before.statistics.get("max_abs", {})
        for name, values in (told := self.as_gathered(exact)).items():
            spec = self.arrays[name]
            for layer, value, largest in zip(spec.layers, values, exact[name], strict=True):
                if not fits(spec.dtype, value):
                    end = "; float16 ends at 65,504" if spec.dtype == "float16" else ""
                    raise StateRangeError(
                        f"layer {layer} of array {name!r} of entry {before.key[:8]} reaches |x| = "
                        f"{largest:,.6g}, which {spec.dtype} cannot hold{end}. Nothing was "
                        "written: convert with --dtype bfloat16 or float32."
                    )
        return told

    def table(self) -> pa.Table:
        """Return the example table, with the first rows of the new layout."""
        table = self.source.examples.table
        starts = example_row_starts(self.laid_out, self.counts)
        for column, arrays in STARTS.items():
            for name in arrays:
                if name in starts:
                    at, field = table.column_names.index(column), table.schema.field(column)
                    table = table.set_column(at, field, pa.array(starts[name], field.type))
        return table

    def _read(self, unit: Unit, *, exact: bool = False) -> dict[str, Float[Tensor, "layers _ dim"]]:
        """Return the rows of a unit per array, verified.

        Args:
            unit: which one.
            exact: as the source is read; else rounded already, where the new dtype is narrower.

        Raises:
            EntryError: a chunk is damaged.
        """
        blocks, stored = {}, self.source.manifest
        for name, spec in self.arrays.items():
            before = READ_DTYPES[stored.array(name).dtype]
            after = before if exact or spec.dtype == "int8" else TORCH_DTYPES[spec.dtype]
            dtype = min(before, after, key=lambda dtype: dtype.itemsize)
            blocks[name] = torch.empty(len(spec.layers), unit.rows[name], spec.dim, dtype=dtype)

        def fill(task: tuple[str, int, int, Tensor, Tensor]) -> None:
            name, layer_index, row_chunk, into, within = task
            plain = [array.name for array in stored.array(name).plain()]
            sums = [self.source.sum_of(array, row_chunk, layer_index) for array in plain]
            chunks = {chunk_sum.array: self.source.chunk(chunk_sum) for chunk_sum in sums}
            rows = decode_chunk(stored.array(name), chunks).index_select(0, within)
            block = blocks[name][layer_index]
            block.index_copy_(0, into, rows.to(block.dtype))

        tasks, some = list[tuple[str, int, int, Tensor, Tensor]](), slice(unit.start, unit.stop)
        for name, spec in self.arrays.items():
            first = self.source.examples.starts(name)[some]
            rows = ragged_arange(first, self.counts[name][some])
            chunk, within = np.divmod(rows, stored.array(name).chunk_rows)
            for row_chunk in np.unique(chunk).tolist():
                into = np.flatnonzero(chunk == row_chunk)
                part = row_chunk, torch.from_numpy(into), torch.from_numpy(within[into])
                tasks += [(name, layer_index, *part) for layer_index in range(len(spec.layers))]
        with ThreadPoolExecutor(min(_MOST_DECODED, usable_cores())) as pool:
            for _ in pool.map(fill, tasks):
                pass
        return blocks
