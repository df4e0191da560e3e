"""A part of an entry, some of its arrays and layers: the manifest and the table that it has."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from probekit.base.fingerprint import digest
from probekit.base.kinds import LAST_ONLY
from probekit.base.layers import parse_layers
from probekit.errors import OptionError
from probekit.store.arrays import ArraySpec
from probekit.store.manifest import Manifest
from probekit.store.tables import STARTS


def chosen_layers(arrays: Iterable[ArraySpec]) -> set[int]:
    """Return the layers of the arrays that hold every layer that was chosen."""
    return {layer for spec in arrays if spec.name not in LAST_ONLY for layer in spec.layers}


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
    found = []
    for spec in named:
        own = tuple(layer for layer in spec.layers if layer in asked)
        if spec.name in LAST_ONLY and (own or spec.name in arrays):
            found.append(spec)
        elif own:
            found.append(replace(spec, layers=own))
    return tuple(found)


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
    if chosen := chosen_layers(kept):
        request["layers"] = sorted(chosen)
    return replace(
        manifest,
        key=digest(request),
        request=request,
        arrays=kept,
        statistics={
            name: _statistics(values, manifest, kept)
            for name, values in manifest.statistics.items()
        },
        extra={**manifest.extra, "reduced_from": manifest.key},
        files={},
    )


def part_table(table: pa.Table, manifest: Manifest) -> pa.Table:
    """Return the example table of a part, in which arrays that it lacks have no first row."""
    names = {spec.name for spec in manifest.arrays}
    for column, arrays in STARTS.items():
        if column in table.column_names and not names & set(arrays):
            at, field = table.column_names.index(column), table.schema.field(column)
            none = pa.array([-1] * len(table), field.type)
            table = table.set_column(at, field, none)
    return table


def _statistics(
    values: Mapping[str, Sequence[float]], manifest: Manifest, kept: Sequence[ArraySpec]
) -> dict[str, list[float]]:
    """Return of numbers per array and layer those of a part."""
    found = {}
    for spec in kept:
        if spec.name in values:
            before = dict(zip(manifest.array(spec.name).layers, values[spec.name], strict=True))
            found[spec.name] = [before[layer] for layer in spec.layers]
    return found
