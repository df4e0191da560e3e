"""Measure the geometry of all layers of an entry."""

import math
from pathlib import Path

from probekit.errors import OptionError
from probekit.features import Location
from probekit.measures.layer_sums import sum_layers
from probekit.measures.magnitudes import massive_channels, medians
from probekit.measures.measured_rows import MeasuredRows
from probekit.measures.neighbours import intrinsic_dimension
from probekit.measures.similarity import MEMORY, LayerSimilarity
from probekit.results.layer_geometry import Geometry, LayerGeometry
from probekit.store import Entry, find_entries
from probekit.store.files import typed_path
from probekit.store.layout import MANIFEST
from probekit.version import __version__

ROWS = 20_000
"""Rows that are measured by default; of more, the measures hardly move."""

SAMPLE = 2_000
"""Rows of which neighbours are searched by default; the cost grows with their square."""


def geometry(
    model: str | Path,
    task: str | None = None,
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
    entry = find_measured(model, task, split, Location() if location is None else location)
    measured = MeasuredRows.draw(entry, array, most=rows, seed=seed)
    return measure(entry, measured, sample=sample, seed=seed, memory=memory)


def find_measured(
    model: str | Path, task: str | None, split: str | None, location: Location
) -> Entry:
    """Return the entry that is meant.

    Raises:
        OptionError: the path of an entry with a task, or anything else without one.
    """
    of_entry = (typed_path(model) / MANIFEST).is_file()
    if task is not None and of_entry:
        raise OptionError(f"{model}: an entry's path, which says its task: leave TASK out.")
    if task is None:
        if not of_entry:
            raise OptionError(
                f"{model} is not the path of a cache entry. Give MODEL and TASK, a path that "
                "`probekit cache ls` shows, or a .json file that `probekit geometry --json` wrote."
            )
        entry = Entry.open(typed_path(model))
        if split in (None, entry.manifest.split):
            return entry
        manifest = entry.manifest
        place = Location(
            cache=entry.path.resolve().parents[2],
            entry=str(entry.path),
            identity=manifest.request["model"],
        )
        return find_measured(manifest.model, manifest.task, split, place)
    wanted = location.wanted(str(model), location.task(task), location.typed)
    return find_entries(typed_path(location.cache), wanted, split or "train", location.entry)


def measure(
    entry: Entry, rows: MeasuredRows, *, sample: int = SAMPLE, seed: int = 0, memory: int = MEMORY
) -> Geometry:
    """Measure rows of an entry; see `geometry`."""
    sums = sum_layers(rows)
    median = medians(rows)
    massive = massive_channels(rows, median, sums.largest)
    alike = LayerSimilarity(rows, sums, memory=memory)
    manifolds = [intrinsic_dimension(rows.sample(n, sample, seed), seed) for n in rows.layers]
    layers = tuple(
        LayerGeometry(
            layer=layer,
            effective_rank=defined(alike.effective_rank[place]),
            anisotropy=defined(float(sums.anisotropy[place])),
            intrinsic_dimension=defined(manifolds[place].value),
            dimension_low=defined(manifolds[place].low),
            dimension_high=defined(manifolds[place].high),
            dimension_rows=manifolds[place].rows,
            norm=float(sums.norm[place]),
            norm_deviation=float(sums.norm_deviation[place]),
            median=float(median[place]),
            massive=massive[place],
        )
        for place, layer in enumerate(rows.layers)
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
