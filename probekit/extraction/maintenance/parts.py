"""Some layers or arrays of an entry, or all of it: which they are, and their chunks as they lie."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from probekit.base.fingerprint import digest
from probekit.base.layers import parse_layers
from probekit.errors import OptionError
from probekit.store.builder import EntryBuilder
from probekit.store.checksums import ChunkSum
from probekit.store.layout import ArraySpec
from probekit.store.manifest import Manifest
from probekit.store.tables import STARTS
from probekit.store.verified import VerifiedEntry


@dataclass(frozen=True)
class CopiedRows:
    """Rows of an entry that another one holds in the same chunks; a unit is one run of rows.

    Attributes:
        source: the entry.
        manifest: of the other one, which has some or all of its arrays and layers.
    """

    source: VerifiedEntry
    manifest: Manifest

    @property
    def units(self) -> list[int]:
        """The numbers of its units, each of all arrays and layers."""
        return list(range(max(spec.n_row_chunks for spec in self.manifest.arrays)))

    def write(self, builder: EntryBuilder, report: Callable[[int], object]) -> None:
        """Copy the units that are not marked yet.

        Args:
            builder: of the other entry.
            report: receives the bytes of chunks that are there, unit by unit.

        Raises:
            EntryError: a chunk is damaged.
            StorageError: there is no room left.
        """
        for unit in self.units:
            if unit not in builder.marks:
                builder.copy_unit(unit, self._chunks(unit))
            report(
                sum(
                    plain.chunk_nbytes * plain.grid[1]
                    for spec in self.manifest.arrays
                    for plain in spec.plain()
                    if unit < spec.n_row_chunks
                )
            )

    def table(self) -> pa.Table:
        """Return the example table, in which arrays that went have no first row."""
        table, names = self.source.examples.table, {spec.name for spec in self.manifest.arrays}
        for column, arrays in STARTS.items():
            if column in table.column_names and not names & set(arrays):
                at, field = table.column_names.index(column), table.schema.field(column)
                table = table.set_column(at, field, pa.array([-1] * len(table), field.type))
        return table

    def _chunks(self, unit: int) -> Iterator[tuple[ChunkSum, Callable[[], bytes]]]:
        """Yield the chunks of a unit at their new places among the layers, each with its reader."""
        for spec in self.manifest.arrays:
            if unit >= spec.n_row_chunks:
                continue
            before = self.source.manifest.array(spec.name)
            for plain in before.plain():
                for at, layer in enumerate(spec.layers):
                    stored = self.source.sum_of(plain.name, unit, before.layers.index(layer))
                    yield replace(stored, layer_index=at), partial(self.source.chunk, stored)


def asked_arrays(
    manifest: Manifest, layers: str | None, arrays: Collection[str]
) -> tuple[ArraySpec, ...]:
    """Return the arrays that are asked for, with the layers that are.

    Args:
        manifest: of the whole entry.
        layers: the layers, as `parse_layers` reads them; None is all. ``tokens`` has its own one,
            and comes along only where that is among them, or where it is named.
        arrays: names of arrays; none is all.

    Raises:
        EntryError: the entry has no array of a name.
        OptionError: it lacks a layer.
    """
    for name in arrays:
        manifest.array(name)
    named = [spec for spec in manifest.arrays if not arrays or spec.name in arrays]
    if layers is None:
        return tuple(named)
    asked = set(parse_layers(layers, manifest.n_blocks))
    held = {layer for spec in named for layer in spec.layers}
    if not asked <= held:
        raise OptionError(
            f"--layers {layers}: layer {min(asked - held)} is not in "
            f"{', '.join(spec.name for spec in named)} of {manifest.task} {manifest.split}, which "
            f"hold {sorted(held)}."
        )
    return _with_layers(named, asked, [name for name in manifest.last_only if name in arrays])


def arrays_without(
    manifest: Manifest, layers: str | None, arrays: Collection[str]
) -> tuple[ArraySpec, ...]:
    """Return the arrays that are left, with the layers that are.

    Args:
        manifest: of the entry.
        layers: the layers that go, as `parse_layers` reads them; ``tokens`` keeps its one.
        arrays: the arrays that go.

    Raises:
        OptionError: a layer is not in the entry, or nothing would be left.
        EntryError: an array is not.
    """
    for name in arrays:
        manifest.array(name)
    left = tuple(spec for spec in manifest.arrays if spec.name not in arrays)
    if layers is not None:
        gone = set(parse_layers(layers, manifest.n_blocks))
        held = _chosen_layers(manifest, left)
        if not gone <= held:
            but = f" but {', '.join(manifest.last_only)}, which keeps its own"
            raise OptionError(
                f"--layers {layers}: layer {min(gone - held)} is in no array that is left"
                f"{but if manifest.last_only else ''}; there are {sorted(held)}."
            )
        left = _with_layers(left, held - gone, manifest.last_only)
    if not left:
        raise OptionError("nothing would be left: remove the whole entry with probekit cache rm.")
    return left


def part_manifest(manifest: Manifest, kept: tuple[ArraySpec, ...]) -> Manifest:
    """Return the manifest of a part, whose request asks for just this; of all it is the same.

    Args:
        manifest: of the whole entry.
        kept: the arrays of the part, with their layers.
    """
    if kept == manifest.arrays:
        return manifest
    names = {spec.name for spec in kept}
    gone = {spec.name for spec in manifest.arrays} - names
    request = dict(manifest.request)
    request["keep"] = sorted({*request["keep"], *names} - gone)
    if chosen := _chosen_layers(manifest, kept):
        request["layers"] = sorted(chosen)
    # an extraction says it only where another could be meant: see `Request.tokens_of_layers`
    if "tokens" not in names or (chosen == {manifest.n_blocks} and manifest.only is None):
        request.pop("tokens", None)
    return replace(
        manifest,
        key=digest(request),
        request=request,
        arrays=kept,
        statistics={
            name: _part_statistics(values, manifest, kept)
            for name, values in manifest.statistics.items()
        },
        extra={**manifest.extra, "reduced_from": manifest.key},
        files={},
    )


def _chosen_layers(manifest: Manifest, arrays: Iterable[ArraySpec]) -> set[int]:
    """Return the layers of the arrays that hold every layer that was chosen."""
    whole = manifest.last_only
    return {layer for spec in arrays if spec.name not in whole for layer in spec.layers}


def _with_layers(
    arrays: Iterable[ArraySpec], layers: Collection[int], whole: Collection[str]
) -> tuple[ArraySpec, ...]:
    """Return arrays with some layers each, and those of ``whole`` as they are.

    Those that then have none are left out.
    """
    chosen = [
        spec
        if spec.name in whole
        else replace(spec, layers=tuple(n for n in spec.layers if n in layers))
        for spec in arrays
        if spec.name in whole or set(spec.layers) & set(layers)
    ]
    return tuple(chosen)


def _part_statistics(
    values: Mapping[str, Sequence[float]], manifest: Manifest, kept: Sequence[ArraySpec]
) -> dict[str, list[float]]:
    """Return of numbers per array and layer those of a part."""
    chosen = {}
    for spec in kept:
        if spec.name in values:
            before = dict(zip(manifest.array(spec.name).layers, values[spec.name], strict=True))
            chosen[spec.name] = [before[layer] for layer in spec.layers]
    return chosen
