"""Measure the geometry of all layers of an entry, and how far fine-tuning moved each."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from probekit.base.registry import PathName
from probekit.errors import DataError, OptionError
from probekit.features import Location
from probekit.measures.measured_rows import (
    MEMORY,
    LayerSimilarity,
    MeasuredRows,
    default_array,
    intrinsic_dimension,
    sum_layers,
)
from probekit.results.layer_geometry import (
    Change,
    Geometry,
    LayerChange,
    LayerGeometry,
    MassiveChannel,
)
from probekit.store import Entry, find_entries
from probekit.store.files import typed_path
from probekit.store.layout import MANIFEST
from probekit.version import __version__

MASSIVE, TIMES = 100.0, 1000.0
"""A massive activation has a magnitude over the first, and at least the second times the median
magnitude of its layer (Sun et al. 2024, "Massive activations in large language models", section 2).
"""

ROWS = 20_000
"""Rows that are measured by default; of more, the measures hardly move."""

SAMPLE = 2_000
"""Rows of which neighbours are searched by default; the cost grows with their square."""


def medians(rows: MeasuredRows, seed: int = 0) -> Float64[Tensor, " layers"]:
    """Return the median magnitude of the activations of each layer.

    It is exact for up to `ROWS` rows; of more, so many are drawn, since a median needs its values
    side by side.
    """
    middles = []
    for layer in rows.layers:
        values = np.abs(rows.sample(layer, ROWS, seed))
        middles.append(np.median(values, overwrite_input=True))
    return torch.tensor(middles, dtype=torch.float64)


def massive_channels(
    rows: MeasuredRows, median: Float64[Tensor, " layers"], largest: Float64[Tensor, " layers"]
) -> list[Sequence[MassiveChannel]]:
    """Return the channels of each layer that hold massive activations.

    Args:
        rows: what is measured.
        median: median magnitude of each layer.
        largest: largest magnitude of each layer; only those where it is massive are read.
    """
    massive_by_layer: list[Sequence[MassiveChannel]] = []
    for index, layer in enumerate(rows.layers):
        n_rows, peaks = torch.zeros(2, rows.array.dim, dtype=torch.float64)
        if _is_massive(largest[index], median[index]):
            for (values,) in map(torch.abs, rows.blocks([layer])):
                n_rows += _is_massive(values, median[index]).sum(0)
                peaks = torch.maximum(peaks, values.amax(0))
        channels = [
            MassiveChannel(channel=number, rows=int(n_rows[number]), largest=float(peaks[number]))
            for number in n_rows.nonzero()[:, 0].tolist()
        ]
        channels.sort(key=lambda channel: (-channel.rows, channel.channel))
        massive_by_layer.append(tuple(channels))
    return massive_by_layer


def _is_massive(values: Tensor, median: Tensor) -> Tensor:
    return (values > MASSIVE) & (values >= TIMES * median)


def geometry(
    model: PathName,
    task: PathName | None = None,
    *,
    split: str | None = None,
    array: str | None = None,
    location: Location | None = None,
    rows: int | None = ROWS,
    sample: int = SAMPLE,
    seed: int = 0,
    memory: int = MEMORY,
) -> Geometry:
    """Measure all layers of an entry, without labels: rows are streamed from the cache.

    Args:
        model: the backbone, as in ``probekit extract``; or the path of an entry, without a task.
        task: name of the task, or the path of the user's own data.
        split: whose rows; train if unset (of a path, the entry's own).
        array: which rows (``words``, ``mean``, ``cls``, ``last``, ``tokens``, ``predicted``); None
            is what probes read by default.
        location: where entries lie; None is the folder ``cache``.
        rows: draw so many rows, if there are more; None measures all of them.
        sample: rows among these that the intrinsic dimension is estimated from, at most; in a
            sparser sample neighbours are farther apart, and it is that of a coarser scale.
        seed: of both draws, and of the bootstrap of the dimension.
        memory: bytes that cross-covariances may take at a time.

    Raises:
        EntryNotFoundError: no entry matches, or several do.
        EntryError: the entry is damaged, or holds values that are not finite.
        OptionError: it does not keep the array, or a path is given that is no entry's.
        UnknownNameError: no such task.
    """
    entry = _find_measured(model, task, split, Location() if location is None else location)
    measured = MeasuredRows.draw(entry, array, most=rows, seed=seed)
    return measure(entry, measured, sample=sample, seed=seed, memory=memory)


def _find_measured(
    model: PathName, task: PathName | None, split: str | None, location: Location
) -> Entry:
    """Return the entry that is meant.

    Raises:
        OptionError: the path of an entry with a task, or anything else without one.
    """
    of_entry = (typed_path(model) / MANIFEST).is_file()
    if task is not None and of_entry:
        raise OptionError(
            f"{model}: this path is an entry, which already names its task: leave TASK out."
        )
    if task is None:
        if not of_entry:
            raise OptionError(
                f"{model} is not the path of a cache entry. Give MODEL and TASK, a path that "
                "`probekit cache ls` shows, or a .json file that `probekit geometry --json` wrote."
            )
        entry = Entry.open(typed_path(model))
        if split not in (None, entry.manifest.split):
            raise OptionError(
                f"--split {split}: {model} is the entry of split {entry.manifest.split}. Leave "
                "--split out, or give MODEL and TASK."
            )
        return entry
    wanted = location.wanted(model, location.task(task))
    return find_entries(typed_path(location.cache), wanted, split or "train", location.entry)


def measure(
    entry: Entry, rows: MeasuredRows, *, sample: int = SAMPLE, seed: int = 0, memory: int = MEMORY
) -> Geometry:
    """Measure rows of an entry; see `geometry`."""
    sums = sum_layers(rows)
    median = medians(rows, seed)
    massive = massive_channels(rows, median, sums.largest)
    alike = LayerSimilarity(rows, sums, memory=memory)
    manifolds = [intrinsic_dimension(rows.sample(n, sample, seed), seed) for n in rows.layers]
    layers = tuple(
        LayerGeometry(
            layer=layer,
            effective_rank=defined(alike.effective_rank[index]),
            anisotropy=defined(float(sums.anisotropy[index])),
            intrinsic_dimension=defined(manifolds[index].value),
            dimension_low=defined(manifolds[index].low),
            dimension_high=defined(manifolds[index].high),
            dimension_rows=manifolds[index].rows,
            norm=float(sums.norm[index]),
            norm_deviation=float(sums.norm_deviation[index]),
            median=float(median[index]),
            massive=massive[index],
        )
        for index, layer in enumerate(rows.layers)
    )
    return Geometry(
        model=entry.manifest.model,
        task=entry.manifest.task,
        split=entry.manifest.split,
        entry=entry.manifest.key,
        array=rows.array.spec.name,
        dim=rows.array.dim,
        rows=len(rows),
        of_rows=rows.of_rows,
        sample=min(sample, len(rows)),
        seed=seed,
        layers=layers,
        cka=tuple(tuple(map(defined, row)) for row in alike.cka),
        version=__version__,
    )


def defined(value: float) -> float | None:
    """Return a number; None where it is undefined."""
    return float(value) if math.isfinite(value) else None


def change(
    model: PathName,
    against: PathName,
    task: PathName | None = None,
    *,
    split: str | None = None,
    array: str | None = None,
    location: Location | None = None,
    rows: int | None = ROWS,
    seed: int = 0,
) -> Change:
    """Measure how far each layer of a model lies from that of another, on the same rows.

    Args:
        model: the model after, such as the folder of a saved run that was extracted; or the path
            of an entry, without a task.
        against: the model before; or the path of an entry.
        task: name of the task, or the path of the user's own data.
        split: whose rows; train if unset.
        array: which rows; None is what probes read by default.
        location: where entries lie; None is the folder ``cache``.
        rows: draw so many rows, if there are more; None measures all of them.
        seed: of the draw.

    Raises:
        EntryNotFoundError: no entry matches, or several do.
        DataError: the entries are of other texts, or of other rows of them.
        OptionError: one does not keep the array, or they share no layer, or are of other widths.
        EntryError: an entry is damaged.
        UnknownNameError: no such task.
    """
    where = Location() if location is None else location
    after, before = (_find_measured(name, task, split, where) for name in (model, against))
    texts = [entry.manifest.request["text"] for entry in (after, before)]
    if texts[0] != texts[1]:
        raise DataError(
            f"{after.path} and {before.path} hold different texts, so their rows cannot be "
            "compared: extract both from the same files, with the same --limit."
        )
    name = default_array(after) if array is None else array
    # one seed draws the same of as many
    own, others = (
        MeasuredRows.draw(entry, name, most=rows, seed=seed) for entry in (after, before)
    )
    layers = _shared_layers(own, others)
    manifest = after.manifest
    return Change(
        model=manifest.model,
        before=before.manifest.model,
        task=manifest.task,
        split=manifest.split,
        entry=manifest.key,
        entry_before=before.manifest.key,
        array=name,
        rows=len(own),
        of_rows=own.of_rows,
        seed=seed,
        layers=tuple(_layer_change(own, others, layer) for layer in layers),
        version=__version__,
    )


def _shared_layers(after: MeasuredRows, before: MeasuredRows) -> list[int]:
    """Return the layers that rows of two entries can be compared in, ascending.

    Raises:
        OptionError: there is none.
        DataError: the rows are not the same ones.
    """
    layers = sorted(set(after.layers) & set(before.layers))
    if after.array.dim != before.array.dim or not layers:
        widths = [
            f"{rows.where}: layers {','.join(map(str, rows.layers))}, {rows.array.dim} wide"
            for rows in (after, before)
        ]
        raise OptionError(
            f"the two entries share no layer of one width ({'; '.join(widths)}): only layers of "
            "the same number are compared."
        )
    if after.of_rows != before.of_rows:
        raise DataError(
            f"{after.where} and {before.where} have {after.of_rows:,} and {before.of_rows:,} rows "
            "with a state: their models tokenise the texts differently, so their rows do not "
            "correspond."
        )
    return layers


def _layer_change(after: MeasuredRows, before: MeasuredRows, layer: int) -> LayerChange:
    """Measure one layer of the same rows of two entries.

    That takes two passes over the rows: for the means, and for linear CKA (as `LayerSimilarity`).
    """
    dim = after.array.dim
    shares, means = [], torch.zeros(2, dim, dtype=torch.float64)
    for (x,), (y,) in zip(after.blocks([layer]), before.blocks([layer]), strict=True):
        norm = y.norm(dim=1)
        shares.append(((x - y).norm(dim=1) / norm)[norm > 0])
        means += torch.stack([x.sum(0), y.sum(0)])
    means /= len(after)
    cross, of_x, of_y = torch.zeros(3, dim, dim, dtype=torch.float64)
    for (x,), (y,) in zip(after.blocks([layer]), before.blocks([layer]), strict=True):
        x, y = x - means[0], y - means[1]
        cross.addmm_(y.T, x)
        of_x.addmm_(x.T, x)
        of_y.addmm_(y.T, y)
    share = torch.cat(shares)
    return LayerChange(
        layer=layer,
        change=defined(float(share.mean())),
        deviation=defined(float(share.std(correction=0))),
        cka=defined(float(cross.square().sum() / (of_x.norm() * of_y.norm()))),
    )
