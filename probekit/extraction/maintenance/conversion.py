"""Store an entry in another format or dtype, without the model that it is of.

What storing did to the rows of an entry, and what storing them once more would do.

The key of an entry names its numbers. So one that is converted has the key of an extraction only
where its numbers are those that the extraction would have stored: rows that were rounded on their
way say through which dtypes they went, in ``request.through``.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from probekit.base.fingerprint import digest
from probekit.base.kinds import ARRAYS
from probekit.base.registry import choose
from probekit.data.pooling import Pooling
from probekit.errors import OptionError, StateRangeError
from probekit.extraction.maintenance.destination import Destination, bar_of
from probekit.extraction.maintenance.part import Part
from probekit.extraction.maintenance.restored import Restored
from probekit.extraction.plan import row_dtypes
from probekit.extraction.write import writer_thread
from probekit.store.arrays import FEATURE_DTYPES, ArraySpec, FeatureDtype
from probekit.store.backends import BACKENDS
from probekit.store.builder import EntryBuilder
from probekit.store.codec import TORCH_DTYPES, fits
from probekit.store.entry import Entry
from probekit.store.files import check_room, typed_path
from probekit.store.labels import carry_labels
from probekit.store.manifest import Manifest, read_manifest
from probekit.store.mapping import check_mappable
from probekit.store.verified import VerifiedEntry

logger = logging.getLogger(__name__)

_ROUNDED_TWICE_IS_ONCE = ("float16", "bfloat16", "float32")
"""int8 is none of these: the scales of rows that were decoded are not those of the rows."""


def is_exact(manifest: Manifest) -> bool:
    """Say whether an entry holds its rows as the model computed them, without any rounding."""
    if manifest.request.get("through"):
        return False
    return all(_holds(spec, _computed(spec, manifest)[0]) for spec in manifest.arrays)


def through(manifest: Manifest, dtype: FeatureDtype) -> list[str]:
    """Return the dtypes that rows of an entry have gone through, once they are stored as another.

    None where the numbers are those that an extraction would store: where the entry holds what was
    computed, or what it holds was rounded to ``dtype`` alone.

    Args:
        manifest: of the entry.
        dtype: what its rows are to be stored as.
    """
    gone = list(manifest.request.get("through", ()))
    # float32 adds nothing: it holds what all others hold
    if dtype != manifest.dtype and manifest.dtype != "float32" and not is_exact(manifest):
        gone.append(manifest.dtype)
    if gone and gone[-1] == dtype and dtype in _ROUNDED_TWICE_IS_ONCE:
        gone.pop()
    return gone


def auto_is_float16(manifest: Manifest) -> bool | None:
    """Say whether ``--dtype auto`` would have chosen float16; None where rows must tell.

    Raises:
        OptionError: nothing tells any more.
    """
    if manifest.dtype == "float16" and not manifest.request.get("through"):
        return True
    if is_exact(manifest):
        return None
    raise OptionError(
        f"--dtype auto chooses by what the model computes, and entry {manifest.key[:8]} holds it "
        f"rounded to {manifest.dtype}. Say which: --dtype float16, bfloat16, float32 or int8."
    )


def as_gathered(
    largest: Mapping[str, Sequence[float]], arrays: Mapping[str, ArraySpec], manifest: Manifest
) -> dict[str, list[float]]:
    """Return the largest |x| of layers as an extraction in another dtype measures them.

    Rounding keeps the order of numbers, so the largest of rounded ones is the largest, rounded.

    Args:
        largest: of each layer, per array, as they are.
        arrays: what they are stored as.
        manifest: of the entry that they are in.
    """
    found = {}
    for name, values in largest.items():
        gathered = _computed(arrays[name], manifest)[1]
        found[name] = torch.tensor(values, dtype=torch.float64).to(gathered).tolist()
    return found


def check_range(
    largest: Mapping[str, Sequence[float]], arrays: Mapping[str, ArraySpec], manifest: Manifest
) -> None:
    """Refuse values that a stored dtype cannot hold, before anything is written.

    Args:
        largest: of each layer, per array, as they are.
        arrays: what they are to be stored as.
        manifest: of the entry that they are in.

    Raises:
        StateRangeError: a layer has such values.
    """
    for name, values in as_gathered(largest, arrays, manifest).items():
        spec = arrays[name]
        for layer, value, found in zip(spec.layers, values, largest[name], strict=True):
            if not fits(spec.dtype, value):
                end = "; float16 ends at 65,504" if spec.dtype == "float16" else ""
                raise StateRangeError(
                    f"layer {layer} of array {name!r} of entry {manifest.key[:8]} reaches |x| = "
                    f"{found:,.6g}, which {spec.dtype} does not hold{end}. Nothing was written: "
                    "convert with --dtype bfloat16 or float32."
                )


def _holds(spec: ArraySpec, exact: torch.dtype) -> bool:
    stored = TORCH_DTYPES[spec.dtype]
    return stored in (torch.float32, exact) and spec.dtype != "int8"


def _computed(spec: ArraySpec, manifest: Manifest) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype of an array's rows as the model has them, and that of gathering them."""
    if spec.name not in ARRAYS:
        return torch.float32, torch.float32
    pooling = cast(Pooling, manifest.pooling)
    return row_dtypes(spec, TORCH_DTYPES[manifest.compute_dtype], pooling)


_MADE_BY = "cache convert"
_FORM = ("format", "dtype", "through")
"""What a request says of how rows are stored."""


@dataclass(frozen=True)
class Conversion:
    """An entry, and the one that holds its rows in another form.

    Attributes:
        source: the entry.
        manifest: of the other one.
        rows: its rows in their new places; None where chunks stay as they are.
        destination: where it lies.
    """

    source: VerifiedEntry
    manifest: Manifest
    rows: Restored | None
    destination: Destination

    @classmethod
    def of(
        cls,
        path: Path,
        *,
        format: str | None = None,
        dtype: str | None = None,
        root: Path | None = None,
        overwrite: bool = False,
    ) -> "Conversion":
        """Plan it; nothing is written yet.

        Args:
            path: the entry's folder.
            format: storage backend, ``zarr`` or ``hdf5``; as it is if None.
            dtype: stored dtype, or ``auto`` as in an extraction; as it is if None.
            root: the cache root that gets the entry; that of ``path`` if None.
            overwrite: replace an entry, or throw away a begun one, that is there.

        Raises:
            OptionError: nothing is to change, ``auto`` cannot be known, or a process could not map
                so many files.
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
        asked = source.manifest.request
        format, dtype = format or source.manifest.backend, dtype or asked.get("dtype")
        if (format, dtype) == (source.manifest.backend, asked.get("dtype")):
            raise OptionError(
                f"{path} is {dtype} in {format} already. Give another --format or --dtype; "
                "`probekit cache copy` copies it as it is."
            )
        manifest, rows = _converted(source, format, cast(str, dtype))
        destination = Destination.of(
            root,
            path,
            manifest.key,
            overwrite=overwrite,
            same=True,
        )
        return cls(source, manifest, rows, destination)

    @property
    def nbytes(self) -> int:
        """Bytes of its chunks."""
        return sum(spec.nbytes for spec in self.manifest.arrays)

    @property
    def rounded(self) -> bool:
        """Whether its rows are others than an extraction with these options would store."""
        return bool(self.manifest.request.get("through"))

    def apply(self, report: Callable[[int], object] = lambda count: None) -> Entry:
        """Write what is not there yet, and the labels of its text.

        About two units of rows are in memory at a time.

        Args:
            report: receives the bytes of chunks that were written since the last call.

        Raises:
            EntryLockedError: another process writes the entry.
            EntryError: a chunk or file of the source is damaged, which one is said; or another
                entry is begun in the place. What was written is kept.
            StateRangeError: a value does not fit the dtype.
            StorageError: there is no room left.
        """
        source, to = self.source, self.destination
        if to.there:
            carry_labels(source.path, source.manifest, to.labels)
            return Entry.open(to.path)
        part = Part(source, self.manifest)
        more: dict[str, Any] = {"made_by": _MADE_BY, "source": digest(source.manifest_text)}
        if self.rows is not None:
            more["units"] = [[unit.start, unit.stop] for unit in self.rows.units]
        with to.builder(part.plan(**more)) as builder:
            if self.rows is None:
                part.copy(builder, report)
            else:
                _write(self.rows, builder, report)
            source.check_standing()
            carry_labels(source.path, source.manifest, to.labels)
            table = part.table() if self.rows is None else self.rows.table()
            return builder.complete(self.manifest, table, part.backbone())


def convert_entries(
    sources: Sequence[Path],
    *,
    format: str | None = None,
    dtype: str | None = None,
    root: Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Iterator[tuple[Conversion, bool]]:
    """Convert entries; yield each conversion with whether its entry was there already.

    It works as it is iterated. All are planned, and room for them is looked for, before the first
    is written. Of several, those that are in that form are left alone, and of those that differ in
    how rows are stored alone, the one that holds them best is converted.

    Args:
        sources: the entries' folders.
        format: storage backend, ``zarr`` or ``hdf5``; as it is if None.
        dtype: stored dtype, or ``auto``; as it is if None.
        root: the cache root that gets the entries; that of each if None.
        overwrite: replace entries that are there.
        progress: show progress on stderr.

    Raises:
        ProbekitError: as `Conversion.of` and `Conversion.apply`.
    """
    to = None if root is None else typed_path(root)
    planned = [
        Conversion.of(typed_path(path), format=format, dtype=dtype, root=to, overwrite=overwrite)
        for path in _useful(sources, format, dtype)
    ]
    for place in {one.destination.path.parents[2] for one in planned}:
        mine = [one for one in planned if one.destination.path.parents[2] == place]
        needed = sum(one.destination.left(one.nbytes) for one in mine)
        check_room(place, needed, "this conversion", "choose another root")
    for one in planned:
        there = one.destination.there
        with bar_of(one.destination, one.nbytes, shown=progress and not there) as bar:
            one.apply(bar.report)
        yield one, there


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
            logger.info("left alone: %s is %s in %s already", path, form[1], form[0])
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


def _converted(source: VerifiedEntry, format: str, dtype: str) -> tuple[Manifest, Restored | None]:
    """Return the manifest of what is made, and its rows where they are stored in another dtype."""
    before = source.manifest
    stored = _settled(source, dtype)
    rows = None if stored == before.dtype else Restored.of(source, stored)
    arrays = before.arrays if rows is None else tuple(rows.arrays.values())
    if format != before.backend:
        check_mappable(BACKENDS[format], arrays)
    request = {**before.request, "format": format, "dtype": dtype}
    request.pop("through", None)
    if gone := through(before, stored):
        request["through"] = gone
    statistics, largest = before.statistics, before.statistics.get("max_abs", {})
    if rows is not None:
        check_range(largest, rows.arrays, before)
        statistics = {**statistics, "max_abs": as_gathered(largest, rows.arrays, before)}
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
    return manifest, rows


def _settled(source: VerifiedEntry, dtype: str) -> FeatureDtype:
    """Return what is stored; for ``auto`` what an extraction chooses, by its largest unit."""
    asked, stored = source.manifest.request.get("dtype"), source.manifest.dtype
    if dtype != "auto":
        return cast(FeatureDtype, dtype)
    if asked == "auto":
        return cast(FeatureDtype, stored)
    if auto_is_float16(source.manifest):
        return "float16"
    rows = Restored.of(source, "float16")
    largest = as_gathered(rows.largest(), rows.arrays, source.manifest).values()
    fit = all(fits("float16", value) for values in largest for value in values)
    return "float16" if fit else "bfloat16"


def _write(rows: Restored, builder: EntryBuilder, report: Callable[[int], object]) -> None:
    """Write the units that are not marked yet, the next one read while one is written."""

    def write(item: tuple[int, dict[str, Any]]) -> None:
        index, blocks = item
        builder.write_unit(index, rows.units[index].row_start, blocks)
        report(rows.unit_nbytes(index))

    try:
        with writer_thread(write) as put:
            for index in range(len(rows.units)):
                if index in builder.marks:
                    report(rows.unit_nbytes(index))
                else:
                    put((index, rows.read(index)))
    except StateRangeError:
        builder.discard()  # going on would meet the same value again
        raise
