"""How far fine-tuning moved each layer: the rows of two entries of one text, side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from probekit.errors import DataError, OptionError
from probekit.features import Location
from probekit.measures.measured_rows import (
    BLOCK_BYTES,
    default_array,
    drawn_places,
    rows_with_states,
)
from probekit.measures.measuring import ROWS, defined, find_measured
from probekit.results.layer_geometry import Change, LayerChange
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray
from probekit.version import __version__


def change(
    model: str | Path,
    against: str | Path,
    task: str | None = None,
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
    after, before = (find_measured(name, task, split, where) for name in (model, against))
    pairs = PairedRows.draw(after, before, array, most=rows, seed=seed)
    manifest = after.manifest
    return Change(
        model=manifest.model,
        before=before.manifest.model,
        task=manifest.task,
        split=manifest.split,
        entry=manifest.key,
        entry_before=before.manifest.key,
        array=pairs.after.spec.name,
        rows=len(pairs.places),
        of_rows=pairs.of_rows,
        seed=seed,
        layers=tuple(layer_change(pairs, layer) for layer in pairs.layers),
        version=__version__,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedRows:
    """The same rows of two entries.

    Attributes:
        after: the array of one.
        before: that of the other.
        places: numbers of the rows in both, (rows, 2).
        of_rows: how many there are to draw from.
        layers: those that both hold, ascending.
    """

    after: FeatureArray
    before: FeatureArray
    places: Int64[np.ndarray, "rows 2"]
    of_rows: int
    layers: tuple[int, ...]

    @classmethod
    def draw(
        cls, after: Entry, before: Entry, array: str | None, *, most: int | None, seed: int
    ) -> "PairedRows":
        """Choose rows; see `change`."""
        name = default_array(after) if array is None else array
        for entry in (after, before):
            if name not in entry.arrays:
                held = ", ".join(entry.arrays)
                raise OptionError(f"--array {name}: {entry.path} holds {held}; choose one of both.")
        _check_same_texts(after, before)
        first, second = after.arrays[name], before.arrays[name]
        layers = tuple(sorted(set(first.layers) & set(second.layers)))
        if first.dim != second.dim or not layers:
            widths = [
                f"layers {','.join(map(str, e.layers))} {e.dim} wide" for e in (first, second)
            ]
            raise OptionError(
                f"{after.path} and {before.path} share no layer of one width ({widths[0]}; "
                f"{widths[1]}): only layers of the same number are compared."
            )
        every = [rows_with_states(entry, name) for entry in (after, before)]
        if len(every[0]) != len(every[1]):
            raise DataError(
                f"{after.path} and {before.path} have {len(every[0]):,} and {len(every[1]):,} "
                f"{name} with a state: their models read the texts otherwise, and their rows are "
                "not the same."
            )
        places = np.stack(every, 1)[drawn_places(len(every[0]), most, seed)]
        return cls(after=first, before=second, places=places, of_rows=len(every[0]), layers=layers)

    def blocks(self, layer: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows of a layer block by block, after and before, (rows, dim) in float64."""
        size = max(BLOCK_BYTES // (16 * self.after.dim), 1)
        for start in range(0, len(self.places), size):
            part = self.places[start : start + size]
            yield (
                self.after.read(part[:, 0].copy(), [layer])[:, 0].double(),
                self.before.read(part[:, 1].copy(), [layer])[:, 0].double(),
            )


def layer_change(pairs: PairedRows, layer: int) -> LayerChange:
    """Measure one layer, in two passes over its rows: for the means, and for what is about them."""
    shares, totals = [], torch.zeros(2, pairs.after.dim, dtype=torch.float64)
    for after, before in pairs.blocks(layer):
        norm = before.norm(dim=1)
        shares.append(((after - before).norm(dim=1) / norm)[norm > 0])
        totals += torch.stack([after.sum(0), before.sum(0)])
    share = torch.cat(shares)
    return LayerChange(
        layer=layer,
        change=defined(float(share.mean())),
        deviation=defined(float(share.std(correction=0))),
        cka=defined(_cka(pairs, layer, totals / len(pairs.places))),
    )


def _cka(pairs: PairedRows, layer: int, means: Float64[Tensor, "2 dim"]) -> float:
    """Return linear CKA, ||Y'X||^2 / (||X'X|| ||Y'Y||) of centred rows X and Y (Frobenius)."""
    dim = pairs.after.dim
    cross, of_x, of_y = (torch.zeros(dim, dim, dtype=torch.float64) for _ in range(3))
    for after, before in pairs.blocks(layer):
        x, y = after - means[0], before - means[1]
        cross.addmm_(y.T, x)
        of_x.addmm_(x.T, x)
        of_y.addmm_(y.T, y)
    return float(cross.square().sum() / (of_x.norm() * of_y.norm()))


def _check_same_texts(after: Entry, before: Entry) -> None:
    """Refuse entries whose rows are of other texts.

    Raises:
        DataError: they are.
    """
    texts = [entry.manifest.request["text"] for entry in (after, before)]
    if texts[0] != texts[1]:
        raise DataError(
            f"{after.path} and {before.path} are of other texts, and rows can only be compared "
            "where both models read the same ones: extract both from the same files, with the "
            "same --limit."
        )
