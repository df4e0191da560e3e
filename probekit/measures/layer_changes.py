"""How far fine-tuning moved each layer: the rows of two entries of one text, side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float64
from torch import Tensor

from probekit.errors import DataError, OptionError
from probekit.features import Location
from probekit.measures.measured_rows import MeasuredRows, default_array
from probekit.measures.measuring import ROWS, defined, find_measured
from probekit.results.layer_geometry import Change, LayerChange
from probekit.store import Entry
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
        array=pairs.after.array.spec.name,
        rows=len(pairs.after),
        of_rows=pairs.after.of_rows,
        seed=seed,
        layers=tuple(layer_change(pairs, layer) for layer in pairs.layers),
        version=__version__,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedRows:
    """The same rows of two entries.

    Attributes:
        after: rows of one.
        before: those of the other.
        layers: those that both hold, ascending.
    """

    after: MeasuredRows
    before: MeasuredRows
    layers: tuple[int, ...]

    @classmethod
    def draw(
        cls, after: Entry, before: Entry, array: str | None, *, most: int | None, seed: int
    ) -> "PairedRows":
        """Choose rows; see `change`."""
        _check_same_texts(after, before)
        name = default_array(after) if array is None else array
        # one seed draws the same of as many
        first, second = (MeasuredRows.draw(e, name, most=most, seed=seed) for e in (after, before))
        layers = tuple(sorted(set(first.layers) & set(second.layers)))
        if first.array.dim != second.array.dim or not layers:
            widths = [
                f"layers {','.join(map(str, rows.layers))} {rows.array.dim} wide"
                for rows in (first, second)
            ]
            raise OptionError(
                f"{after.path} and {before.path} share no layer of one width ({widths[0]}; "
                f"{widths[1]}): only layers of the same number are compared."
            )
        if first.of_rows != second.of_rows:
            raise DataError(
                f"{after.path} and {before.path} have {first.of_rows:,} and {second.of_rows:,} "
                f"{name} with a state: their models read the texts otherwise, and their rows are "
                "not the same."
            )
        return cls(after=first, before=second, layers=layers)

    def blocks(self, layer: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows of a layer block by block, after and before, (rows, dim) in float64."""
        pairs = zip(self.after.blocks([layer]), self.before.blocks([layer]), strict=True)
        return ((after[0], before[0]) for after, before in pairs)


def layer_change(pairs: PairedRows, layer: int) -> LayerChange:
    """Measure one layer, in two passes over its rows: for the means, and for what is about them."""
    shares, totals = [], torch.zeros(2, pairs.after.array.dim, dtype=torch.float64)
    for after, before in pairs.blocks(layer):
        norm = before.norm(dim=1)
        shares.append(((after - before).norm(dim=1) / norm)[norm > 0])
        totals += torch.stack([after.sum(0), before.sum(0)])
    share = torch.cat(shares)
    return LayerChange(
        layer=layer,
        change=defined(float(share.mean())),
        deviation=defined(float(share.std(correction=0))),
        cka=defined(_cka(pairs, layer, totals / len(pairs.after))),
    )


def _cka(pairs: PairedRows, layer: int, means: Float64[Tensor, "2 dim"]) -> float:
    """Return linear CKA, ||Y'X||^2 / (||X'X|| ||Y'Y||) of centred rows X and Y (Frobenius)."""
    dim = pairs.after.array.dim
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
