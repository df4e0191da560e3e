"""What was measured of the layers of an entry without labels: numbers, their JSON form, tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from probekit.base.fingerprint import parse_json
from probekit.base.registry import PathName
from probekit.errors import MissingFileError, RecordError
from probekit.results.summaries.typeset import NOTHING, Column, Table
from probekit.results.summaries.wording import model_text, range_text


@dataclass(frozen=True, kw_only=True)
class MassiveChannel:
    """A channel of a layer that holds massive activations.

    Attributes:
        channel: its number, from 0 on.
        rows: rows in which it is massive.
        largest: the largest magnitude among them.
    """

    channel: int
    rows: int
    largest: float


@dataclass(frozen=True, kw_only=True)
class LayerGeometry:
    """One layer; None stands for what is undefined there, as of rows that are all the same.

    Attributes:
        layer: its number.
        effective_rank: of the covariance of the rows: exponential of the entropy of its eigenvalues
            as shares of their sum (Roy & Vetterli 2007, equations 3 to 5), 1 to D. The eigenvalues
            are the squared singular values of the centred rows; of these themselves, unsquared, the
            effective rank would be higher.
        anisotropy: mean cosine between two different rows, over all pairs (Ethayarajh 2019,
            section 3.2), rows of zeros left out.
        intrinsic_dimension: of a sample of the rows by TwoNN (Facco et al. 2017).
        dimension_low: lower end of its 95 % interval over the rows of the sample (bootstrap); None
            where it was measured without one.
        dimension_high: upper end.
        dimension_rows: different rows of the sample, which it was estimated from.
        norm: mean Euclidean norm of a row.
        norm_deviation: standard deviation of the norms over the rows.
        median: median magnitude of all activations.
        massive: channels with activations of a magnitude over 100 that is at least 1,000 times
            the median (Sun et al. 2024, section 2), those in most rows first.
    """

    layer: int
    effective_rank: float | None
    anisotropy: float | None
    intrinsic_dimension: float | None
    norm: float
    norm_deviation: float
    median: float
    massive: Sequence[MassiveChannel] = ()
    dimension_low: float | None = None
    dimension_high: float | None = None
    dimension_rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was measured of the layers of an entry says which rows it is of.

    Attributes:
        model: name of the backbone; of two, that of the model after.
        task: name of the task.
        split: whose rows.
        entry: key of the cache entry; of two, that of the one after.
        array: which rows (``words``, ``cls``, ...).
        rows: rows that were measured.
        of_rows: rows that there are.
        seed: of all draws.
        version: version of probekit that measured.
    """

    model: str
    task: str
    split: str
    entry: str
    array: str
    rows: int
    of_rows: int
    seed: int
    version: str

    @property
    def rows_text(self) -> str:
        """Which rows these are, such as ``ner dev: 20,000 of 43,210 rows of words``."""
        of = f" of {self.of_rows:,}" if self.rows < self.of_rows else ""
        return f"{self.task} {self.split}: {self.rows:,}{of} rows of {self.array}"

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as plain JSON values."""
        return dict(json.loads(json.dumps(asdict(self))))


@dataclass(frozen=True, kw_only=True)
class Geometry(Measurement):
    """The geometry of all layers of an entry.

    Attributes:
        dim: D, the width.
        sample: rows among these that the intrinsic dimension was estimated from, at most.
        layers: one by one, ascending.
        cka: linear centred kernel alignment between every two layers (Kornblith et al. 2019,
            section 3), in the order of ``layers``: 0 to 1; None where one of them is constant.
    """

    dim: int
    sample: int
    layers: Sequence[LayerGeometry]
    cka: Sequence[Sequence[float | None]] = field(repr=False)

    def _repr_html_(self) -> str:
        """Return for a notebook what ``probekit geometry`` prints."""
        return geometry_table(self)._repr_html_()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what ``to_json`` wrote; fields that this version does not know are left out.

        Raises:
            RecordError: a field is missing, or there is no layer.
        """
        layers = tuple(
            LayerGeometry(
                **layer | {"massive": tuple(MassiveChannel(**m) for m in layer["massive"])}
            )
            for layer in data["layers"]
        )
        if not layers:
            raise RecordError("it holds no layer; measure again with `probekit geometry --json`.")
        values = {item.name: data[item.name] for item in fields(cls)}
        return cls(**values | {"layers": layers, "cka": tuple(map(tuple, data["cka"]))})


def load_geometry(path: PathName) -> Geometry:
    """Read what ``probekit geometry --json`` wrote.

    Raises:
        MissingFileError: there is no such file.
        RecordError: it holds something else.
    """
    try:
        return Geometry.from_json(parse_json(Path(path).read_bytes()))
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file.") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(f"{path}: not what `probekit geometry --json` wrote ({error}).") from None


def geometry_table(geometry: Geometry) -> Table:
    """Return layer, rank, mean cosine, dimension, norm, two CKAs and massive channels."""
    layers, places = geometry.layers, range(len(geometry.layers))
    before = [geometry.cka[index][index - 1] if index else None for index in places]
    columns = [
        Column("layer", [str(layer.layer) for layer in layers], words=True),
        Column("covariance rank", [_number(layer.effective_rank, 1) for layer in layers]),
        Column("cosine", [_number(layer.anisotropy, 3) for layer in layers]),
        Column("dimension", [_dimension_text(layer) for layer in layers]),
        Column("norm", [f"{layer.norm:.4g} ± {layer.norm_deviation:.2g}" for layer in layers]),
        Column("CKA before", [_number(cka, 3) for cka in before]),
        Column("CKA last", [_number(geometry.cka[index][-1], 3) for index in places]),
        Column("massive", [_massive_text(layer) for layer in layers], words=True),
    ]
    different = [layer.dimension_rows for layer in layers if layer.dimension_rows is not None]
    drawn = f"{geometry.sample:,} drawn rows"
    if different:
        drawn = f"{range_text(different)} distinct rows among {drawn}, with its 95 % interval"
    few = " Fewer rows than channels: the rank is too low, CKA too high." * (
        geometry.rows < geometry.dim
    )
    caption = (
        f"{geometry.model}, {geometry.rows_text}, {geometry.dim} wide; rank: effective rank of "
        f"their covariance (entropy of its eigenvalues); dimension by TwoNN from {drawn}; "
        f"massive: magnitude over 100 and over 1,000 times the layer's median.{few}"
    )
    return Table(columns, caption=caption)


def _number(value: float | None, decimals: int) -> str:
    return NOTHING if value is None else f"{value:.{decimals}f}"


def _dimension_text(layer: LayerGeometry) -> str:
    """Return the dimension with its interval: ``12.3 (11.8 to 12.9)``."""
    value, low, high = (
        _number(value, 1)
        for value in (layer.intrinsic_dimension, layer.dimension_low, layer.dimension_high)
    )
    return value if layer.dimension_low is None else f"{value} ({low} to {high})"


def _massive_text(layer: LayerGeometry) -> str:
    """Return the channels with massive activations, each with its rows: ``138 (2,490 rows)``."""
    shown = [f"{channel.channel} ({channel.rows:,} rows)" for channel in layer.massive[:2]]
    more = [f"{len(layer.massive) - 2} more"] if len(layer.massive) > 2 else []
    return ", ".join([*shown, *more]) or NOTHING


@dataclass(frozen=True, kw_only=True)
class LayerChange:
    """One layer.

    Attributes:
        layer: its number.
        change: ||after - before|| / ||before|| in Euclidean norms, mean over rows; rows of zeros
            before are left out, and None is where all are.
        deviation: its standard deviation over the rows.
        cka: linear centred kernel alignment between the layer before and after (Kornblith et al.
            2019, section 3): 1 where rows were turned, scaled or moved as a whole; None where
            either is constant.
    """

    layer: int
    change: float | None
    deviation: float | None
    cka: float | None

    @property
    def text(self) -> str:
        """The change with its deviation."""
        known = self.change is not None and self.deviation is not None
        return f"{self.change:.3g} ± {self.deviation:.2g}" if known else NOTHING


@dataclass(frozen=True, kw_only=True)
class Change(Measurement):
    """What of the layers of a model changed, on the rows of a text.

    Attributes:
        before: name of the model before.
        entry_before: key of the entry before.
        layers: those that both entries hold, ascending.
    """

    before: str
    entry_before: str
    layers: Sequence[LayerChange]

    @property
    def title(self) -> str:
        """Which models were compared, and on which rows."""
        return f"{model_text(self.model)} against {model_text(self.before)}, {self.rows_text}"

    def _repr_html_(self) -> str:
        """Return for a notebook what ``probekit geometry --against`` prints."""
        return change_table(self)._repr_html_()


def change_table(change: Change) -> Table:
    """Return layer, change and CKA."""
    columns = [
        Column("layer", [str(layer.layer) for layer in change.layers], words=True),
        Column("change", [layer.text for layer in change.layers]),
        Column("CKA", [_number(layer.cka, 3) for layer in change.layers]),
    ]
    how = "change: ||after - before|| / ||before||, mean ± SD over rows."
    return Table(columns, caption=f"{change.title}; {how}")
