"""The rows of an entry that are measured, and what is measured over all of them.

How alike layers are, and how many directions each of them fills, from cross-covariances; intrinsic
dimension by the distances to the two nearest neighbours (TwoNN). scikit-dimension has TwoNN too,
but comes with numba and LLVM, ten times what the neighbours of scikit-learn need.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from probekit.base.kinds import ARRAYS, KINDS
from probekit.base.numbers import numpy_generator, ragged_arange
from probekit.errors import EntryError, OptionError
from probekit.store import Entry
from probekit.store.feature_array import FeatureArray

BLOCK_BYTES = 64 * 2**20
"""What a block of rows takes in float64."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Rows of one array.

    Attributes:
        array: what they are read from.
        rows: their numbers, ascending.
        of_rows: how many there are to draw from.
        where: the entry and array, for messages.
        block: rows that are read at once; None is what ``BLOCK_BYTES`` hold.
    """

    array: FeatureArray
    rows: Int64[np.ndarray, " rows"]
    of_rows: int
    where: str
    block: int | None = None

    @classmethod
    def draw(
        cls, entry: Entry, array: str | None = None, *, most: int | None = None, seed: int = 0
    ) -> "MeasuredRows":
        """Choose rows of an entry: each at most once, those without a state left out.

        Args:
            entry: the entry.
            array: name of the array; None is the one that probes read by default.
            most: draw so many, if there are more; None is all of them.
            seed: of the draw.

        Raises:
            OptionError: the entry does not keep such an array, or none is to be drawn.
            EntryError: no row has a state.
        """
        name = default_array(entry) if array is None else array
        if name not in entry.arrays:
            held = ", ".join(entry.arrays)
            raise OptionError(f"--array {name}: {entry.path} holds {held}; choose one of these.")
        stored, every = entry.arrays[name], rows_with_states(entry, name)
        chosen = drawn_places(len(every), most, seed)
        if not len(every):
            raise EntryError(f"{entry.path}: no row of {name!r} has a state to measure.")
        where = f"{name!r} of {entry.path}"
        return cls(stored, every[chosen], len(every), where)

    def __len__(self) -> int:
        """Return how many rows are measured."""
        return len(self.rows)

    @property
    def layers(self) -> tuple[int, ...]:
        """The stored layers, ascending."""
        return tuple(self.array.layers)

    def blocks(
        self, layers: Sequence[int] | None = None
    ) -> Iterator[Float64[Tensor, "layers rows dim"]]:
        """Yield the rows block by block, of all layers or of some."""
        # Not prefetched: of rows as dense as these, what the system reads around each is the next
        # ones, and asking for each page by itself took longer on a disk (3.4 against 5.1 s).
        row_bytes = 8 * len(self.layers if layers is None else layers) * self.array.dim
        size = self.block or max(BLOCK_BYTES // row_bytes, 1)
        for start in range(0, len(self.rows), size):
            part = self.rows[start : start + size]
            yield self.array.read(part, layers).permute(1, 0, 2).double()

    def sample(self, layer: int, count: int, seed: int) -> Float64[np.ndarray, "rows dim"]:
        """Return some rows of one layer, the same ones for every layer."""
        chosen = self.rows
        if count < len(chosen):
            generator = numpy_generator(seed, "geometry sample")
            chosen = np.sort(generator.choice(chosen, count, replace=False))
        return self.array.read(chosen, [layer])[:, 0].double().numpy()

    def check_finite(self, values: Float64[Tensor, "layers rows dim"]) -> None:
        """Refuse rows that overflowed when they were stored, or computed.

        Raises:
            EntryError: a value is infinite or no number.
        """
        finite = torch.isfinite(values).flatten(1).all(1)
        if not bool(finite.all()):
            layer = self.layers[int(torch.nonzero(~finite)[0])]
            raise EntryError(
                f"{self.where}: layer {layer} holds values that are not finite, so it cannot be "
                "measured; extract again with --dtype float32."
            )


def drawn_places(
    count: int, most: int | None, seed: int, purpose: str = "geometry"
) -> Int64[np.ndarray, " places"]:
    """Return the places of the rows that are measured, ascending.

    Args:
        count: rows that there are.
        most: draw so many, if there are more; None is all of them.
        seed: of the draw.
        purpose: which draw of that seed.

    Raises:
        OptionError: none is to be drawn.
    """
    if most is not None and most < 1:
        raise OptionError(f"--rows {most}: expected at least 1, or 0 for all rows.")
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(numpy_generator(seed, purpose).choice(count, most, replace=False))


def default_array(entry: Entry) -> str:
    """Return the array that probes read by default, or the first one where it is not kept."""
    kind = KINDS[entry.manifest.kind]
    usual = kind.own_rows or ("last" if entry.manifest.causal else "mean")
    return usual if usual in entry.arrays else next(iter(entry.arrays))


def rows_with_states(entry: Entry, name: str) -> Int64[np.ndarray, " rows"]:
    """Return the numbers of all rows that a token stands for, in the order of the texts."""
    examples, per = entry.examples, ARRAYS[name].per
    if per == "text":
        return examples.pooled_start[examples.n_tokens > 0].astype(np.int64)
    if per == "subword":
        return ragged_arange(examples.token_start, examples.n_token_rows)
    return examples.rows[examples.valid]


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerSums:
    """Sums over all rows, layer by layer.

    Attributes:
        mean: mean row.
        largest: largest magnitude.
        constant: whether all rows of a layer are the same.
        norm: mean norm of a row.
        norm_deviation: standard deviation of the norms.
        anisotropy: mean cosine between two different rows; NaN without two that are not zero.
    """

    mean: Float64[Tensor, "layers dim"]
    largest: Float64[Tensor, " layers"]
    constant: Bool[Tensor, " layers"]
    norm: Float64[Tensor, " layers"]
    norm_deviation: Float64[Tensor, " layers"]
    anisotropy: Float64[Tensor, " layers"]


def sum_layers(rows: MeasuredRows) -> LayerSums:
    """Read all rows once.

    Raises:
        EntryError: a value is not finite.
    """
    total: Tensor | float = 0.0
    units: Tensor | float = 0.0
    lows, highs, norms = [], [], []
    for block in rows.blocks():
        rows.check_finite(block)
        norm = block.norm(dim=2)
        total = total + block.sum(1)
        units = units + (block / norm.clamp(min=torch.finfo(norm.dtype).tiny)[:, :, None]).sum(1)
        lows.append(block.amin(1))
        highs.append(block.amax(1))
        norms.append(norm)
    low, high = torch.stack(lows).amin(0), torch.stack(highs).amax(0)
    norm = torch.cat(norms, 1)  # one number for each row of a layer
    assert isinstance(total, Tensor) and isinstance(units, Tensor)
    # The squared norm of n unit vectors' sum is n, of each with itself, and twice the sum of the
    # cosines of all pairs: of u, u and -u it is 1 = 3 + 2 (1 - 1 - 1), and their mean is -1/3,
    # (1 - 3) / (3 * 2). Ethayarajh (2019, section 3.2) samples pairs; all of them need no sample.
    count = (norm > 0).sum(1)
    cosines = (units.square().sum(1) - count) / (count * (count - 1))
    return LayerSums(
        mean=total / len(rows),
        largest=torch.maximum(-low, high).amax(1),
        constant=(low == high).all(1),
        norm=norm.mean(1),
        norm_deviation=norm.std(1, correction=0),
        anisotropy=cosines,
    )


_KEPT = 0.9
"""Share of the ratios that is fitted to: the largest are noisy (Facco et al. 2017)."""

_FEWEST = 10
"""Ratios below which there is no line to fit."""


_BOOTSTRAP = 1000
"""Bootstrap samples of the ratios."""


@dataclass(frozen=True)
class IntrinsicDimension:
    """An estimate of the dimension of the manifold that rows lie on.

    Attributes:
        value: the dimension; NaN where it is undefined.
        low: lower end of its 95 % interval over the rows.
        high: upper end.
        rows: different rows that it was estimated from.
    """

    value: float
    low: float
    high: float
    rows: int


def intrinsic_dimension(rows: Float64[np.ndarray, "n dim"], seed: int = 0) -> IntrinsicDimension:
    """Return the dimension of the manifold that rows lie on, by TwoNN.

    Of mu = r2 / r1, the distances of a row to its second and first neighbour, -log(1 - F(mu)) is d
    log(mu), whatever the density: d is the slope of the line through the origin that fits the
    smallest 90 % (Facco et al. 2017, "Estimating the intrinsic dimension of datasets by a minimal
    neighborhood information", equations 5 and 6). Equal rows count as one, as their distance
    says nothing. The interval is a percentile bootstrap of the ratios, taken as independent.

    Args:
        rows: neighbours are searched among these alone.
        seed: of the bootstrap.

    Returns:
        NaN where too few rows differ, or all are as far from their second neighbour as from their
        first.
    """
    distinct = np.unique(rows, axis=0)
    count = len(distinct)
    if count < _FEWEST:
        return IntrinsicDimension(math.nan, math.nan, math.nan, count)
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(distinct - distinct.mean(0))
    near = search.kneighbors(return_distance=False)
    # computed again: products of long rows cancel where two are close
    first, second = (np.linalg.norm(distinct - distinct[near[:, n]], axis=1) for n in range(2))
    log_mu = np.log(np.maximum(second, first) / np.minimum(second, first))
    random = numpy_generator(seed, "intrinsic dimension")
    again = [_slope(log_mu[random.integers(count, size=count)]) for _ in range(_BOOTSTRAP)]
    low, high = np.quantile(again, [0.025, 0.975])
    return IntrinsicDimension(_slope(log_mu), float(low), float(high), count)


def _slope(log_mu: Float64[np.ndarray, " n"]) -> float:
    """Return the slope of -log(1 - F) over the smallest of some log(mu)."""
    kept = int(_KEPT * len(log_mu))
    smallest, cumulated = np.sort(log_mu)[:kept], np.arange(1, kept + 1) / len(log_mu)
    below = float(smallest @ smallest)
    return float(smallest @ -np.log1p(-cumulated)) / below if below > 0 else math.nan


MEMORY = 2**30
"""Bytes that cross-covariances may take at a time; more of them take more passes."""

Pair = tuple[int, int]


class LayerSimilarity:
    """Linear CKA between all pairs of layers, and the effective rank of each one's covariance.

    Linear CKA (Kornblith et al. 2019, section 3 and equation 4) of rows X and Y, each centred, is
    ||Y'X||^2 / (||X'X|| ||Y'Y||), in Frobenius norms. Cross-covariances are added up in float64
    over the rows centred by their mean, as many at a time as ``memory`` holds. Those of two layers,
    which nearly all of the time goes into, are multiplied in float32 within a block, which moves
    CKA by 1e-8 (MPNet, 20,000 words).

    Attributes:
        cka: by pair of layers, NaN where one is constant.
        effective_rank: of the covariance of each layer, NaN of a constant one.
    """

    def __init__(self, rows: MeasuredRows, sums: LayerSums, *, memory: int = MEMORY) -> None:
        """Read the rows as often as it takes."""
        n_layers = len(rows.layers)
        squares = np.full((n_layers, n_layers), np.nan)
        self.effective_rank = np.full(n_layers, np.nan)
        varying = [index for index in range(n_layers) if not sums.constant[index]]
        for (first, other), product in _products(rows, sums, varying, memory):
            squares[first, other] = squares[other, first] = float(product.square().sum())
            if first == other:
                self.effective_rank[first] = effective_rank(product)
        norms = np.sqrt(np.diag(squares))
        self.cka: Float64[np.ndarray, "layers layers"] = squares / np.outer(norms, norms)


def _products(
    rows: MeasuredRows, sums: LayerSums, places: Sequence[int], memory: int
) -> Iterator[tuple[Pair, Float64[Tensor, "dim dim"]]]:
    """Yield the sum of the products of the centred rows of every pair of layers, and of each.

    Each layer is divided by its largest magnitude, so that no product is beyond float32.
    """
    # Layers 0, 1, 2 of which two products fit: a pass over layers 0 and 1 for (0, 0) and (0, 1),
    # one over 0, 1, 2 for (0, 2) and (1, 1), and one over 1 and 2 for (1, 2) and (2, 2).
    pairs = list(combinations_with_replacement(places, 2))
    dim = rows.array.dim
    at_once = max(memory // (8 * dim * dim), 1)
    for start in range(0, len(pairs), at_once):
        some_pairs = pairs[start : start + at_once]
        needed = sorted({index for pair in some_pairs for index in pair})
        mean, largest = sums.mean[needed][:, None], sums.largest[needed][:, None, None]
        totals = {pair: torch.zeros(dim, dim, dtype=torch.float64) for pair in some_pairs}
        for block in rows.blocks([rows.layers[index] for index in needed]):
            centred = dict(zip(needed, (block - mean) / largest, strict=True))
            single = {index: values.float() for index, values in centred.items()}
            for (first, other), product in totals.items():
                if first == other:
                    product.addmm_(centred[first].T, centred[first])
                else:
                    product.add_(single[first].T @ single[other])
        yield from totals.items()


def effective_rank(covariance: Float64[Tensor, "dim dim"]) -> float:
    """Return the effective rank of a covariance, whatever its scale.

    It is the exponential of the Shannon entropy of the singular values as shares of their sum (Roy
    & Vetterli 2007, "The effective rank", definition 1). Those of a covariance are its eigenvalues,
    which are the squares of the singular values of the centred rows: the effective rank of the rows
    themselves is higher.
    """
    values = torch.linalg.eigvalsh(covariance).clamp(min=0)
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp())
