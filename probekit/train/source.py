"""Where a stream reads its inputs, in memory or from the cache, and the subwords of windows.

Everything here is layer-major: (layers, rows, D), one contiguous block per layer, so that a head
that reads one layer touches one block and a weighted sum over layers is one product.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from probekit.base.kinds import ARRAYS, TOKENS
from probekit.base.machine import Heap
from probekit.base.numbers import Ragged, block_bounds, bounds_of, ragged_arange
from probekit.base.registry import choose
from probekit.base.tensors import send
from probekit.data.encoded import encoded_of, window_lengths
from probekit.data.pooling import row_sources
from probekit.errors import DataError
from probekit.features import FeatureView, missing_array
from probekit.features.pooled_tokens import PooledRows
from probekit.probe.heads.contract import HeadInput, Reads
from probekit.probe.heads.token_inputs import TextTokens, TokenStates
from probekit.probe.normalization import NORMALIZATIONS, Normalization
from probekit.store import StoredRows
from probekit.tuning import Tuned


class TokenLayout:
    """The subwords of a view's examples: where they lie, and which of them make its rows.

    Of an example that was read in several windows, those from the first to the last that its rows
    are made of: a passage of a long text for language modelling needs no others.

    Attributes:
        view: the same examples, with subwords as their rows (and no targets).
    """

    def __init__(self, rows: FeatureView, *, stored: bool = True) -> None:
        """Look up the subwords of every example of ``rows``.

        Args:
            rows: what is predicted.
            stored: whether they are read from the entry, and not computed anew.

        Raises:
            DataError: the entry does not keep subwords.
        """
        entry, examples = rows.entry, rows.entry.examples
        if stored and TOKENS not in entry.arrays:
            held = missing_array(entry, TOKENS)
            raise DataError(f"this head reads the subwords of whole texts: {held}")
        if stored and examples.has("kept"):
            raise DataError(
                f"this head reads the subwords of whole texts, and {entry.path} holds some alone "
                f"(--only {entry.manifest.only}). Extract without --only."
            )
        self._rows = rows
        sources = row_sources(encoded_of(examples), rows.array.spec.name, entry.manifest.pooling)
        per_text = ARRAYS[rows.array.spec.name].per == "text"
        sources = sources.take(rows.positions if per_text else rows.word_numbers)
        windows = window_lengths(examples)
        tokens = bounds_of(windows.values)
        text_start = tokens[windows.bounds[rows.positions]]
        owner = np.repeat(np.repeat(np.arange(rows.n_examples), rows.lengths), sources.lengths)
        token = sources.values + text_start[owner]
        # A text's two windows of 5 and 4 subwords lie at 10 and 15 of its entry (tokens 10 15 19):
        # its subword 6 is at place 16, in the second window. If no other makes a row, this window
        # alone is read, of which it is subword 1.
        window = np.searchsorted(tokens, token, side="right") - 1
        first, stop = _needed_windows(windows, rows.positions, owner, window)
        self._windows = Ragged(
            windows.values[ragged_arange(first, stop - first)], bounds_of(stop - first)
        )
        self._sources = Ragged(token - tokens[first[owner]], sources.bounds)
        counts = tokens[stop] - tokens[first]
        starts = examples.token_start[rows.positions] + tokens[first] - text_start
        self.view = replace(
            rows,
            array=entry.arrays[TOKENS] if stored else rows.array,
            rows=ragged_arange(starts, counts),
            offsets=bounds_of(counts),
            targets=np.zeros(int(counts.sum()), np.int64),
        )

    def states(
        self, z: Float[Tensor, "layers tokens dim"], examples: Int64[np.ndarray, " some"]
    ) -> TokenStates:
        """Return the subwords of some examples of the view, in the order given.

        Args:
            z: their states, of one layer.
            examples: as positions in the view.
        """
        # Of two sentences, the first one asked for has 3 subwords and one word, at place 1; the
        # other one has words at its places 1 and 2, which lie behind those 3: sources 1 4 5.
        places = self._rows.places(examples)
        sources = self._sources.take(places)
        return TokenStates.of(
            z[0],
            windows=self._windows.take(examples).values,
            sources=sources,
            starts=bounds_of(self.view.lengths[examples])[:-1],
            rows=self._rows.lengths[examples],
        )


class TextLayout:
    """The tokens of whole texts, each of them once; or the words of spans.

    Attributes:
        view: the same examples, with their tokens or words as rows (and no targets).
    """

    def __init__(self, view: FeatureView) -> None:
        """Look up the tokens of each row."""
        array = view.array
        assert isinstance(array, PooledRows)
        tokens, bounds = array.runs_of(view.rows), view.offsets * array.n_runs
        self._lengths = Ragged(tokens.lengths, bounds)
        self.view = replace(
            view,
            array=array.tokens,
            rows=tokens.values,
            offsets=tokens.bounds[bounds],
            targets=np.zeros(len(tokens.values), np.int64),
        )

    def states(
        self, z: Float[Tensor, "layers tokens dim"], examples: Int64[np.ndarray, " some"]
    ) -> Int64[Tensor, " bounds"]:
        """Return where each run of some examples begins and ends, in the order given."""
        return send(torch.from_numpy(bounds_of(self._lengths.take(examples).values)), z.device)


Layout = TokenLayout | TextLayout
LAYOUTS: Mapping[Reads, type[Layout]] = {"tokens": TokenLayout, "texts": TextLayout}
"""By what a head reads besides rows."""


def _needed_windows(
    windows: Ragged,
    positions: Int64[np.ndarray, " examples"],
    owner: Int64[np.ndarray, " sources"],
    window: Int64[np.ndarray, " sources"],
) -> tuple[Int64[np.ndarray, " examples"], Int64[np.ndarray, " examples"]]:
    """Return the first window of each example that a row is made of, and one past the last.

    An example of which no subword makes a row keeps its first window.
    """
    start, end = windows.bounds[positions], windows.bounds[positions + 1]
    first, stop = start.copy(), np.minimum(start + 1, end)
    first[owner] = end[owner]
    np.minimum.at(first, owner, window)
    np.maximum.at(stop, owner, window + 1)
    return first, stop


Step = Int64[np.ndarray, " _"]
"""The examples of one training step, as positions in a view."""

_BLOCK_VALUES = 2**19
"""Most values per layer: 12 layers and what dwatt makes of them then stay in the last-level cache,
which is twice as fast as 2**21 values."""

_BLOCK_BYTES = 24 * 2**20
"""Most bytes of all layers in float32. The C library returns memory of more than 32 MiB to the
system at once, and to get it again page by page costs more than to fill it
(``benchmarks/scoring_blocks.py``)."""

_LEAST_BLOCK = 256
_PART = 256 * 2**20
"""Bytes that are copied to another device at a time."""

_ALIGNMENT = 64


@dataclass(eq=False)
class Inputs:
    """Rows of the union of layers, from which each member takes what it reads.

    Members that read the same layers share one tensor. It has the same values, strides and
    alignment whichever other members there are, so that a member's numbers do not depend on them.

    Attributes:
        z: rows in float32, layer-major, or the subwords of whole windows.
        layers: the numbers along axis 0.
        targets: class number or value of each row that is predicted, or 1 or 0 for each label.
        offsets: bounds of the examples in them.
        tokens: says of subwords which windows they form and which rows they make; of the tokens
            of whole texts where each text begins and ends. None of rows.
    """

    z: Float[Tensor, "layers rows dim"]
    layers: Sequence[int]
    targets: Shaped[Tensor, "targets ..."]
    offsets: Int64[Tensor, " bounds"]
    tokens: TokenStates | Int64[Tensor, " runs"] | None = None
    _normalised: dict[Normalization, Tensor] = field(default_factory=dict)
    _cut: dict[tuple[Normalization, tuple[int, ...]], Tensor] = field(default_factory=dict)

    def of(self, normalization: Normalization, layers: tuple[int, ...]) -> HeadInput:
        """Return normalised rows of some layers, layer-major in memory, or their tokens."""
        key = (normalization, layers)
        if key not in self._cut:
            if normalization not in self._normalised:
                z = select(self.z, self.layers, normalization.layers).transpose(0, 1)
                self._normalised[normalization] = normalization(z).transpose(0, 1)
            self._cut[key] = select(self._normalised[normalization], normalization.layers, layers)
        z = self._cut[key]
        if self.tokens is None:
            return z.transpose(0, 1)
        if isinstance(self.tokens, TokenStates):
            return replace(self.tokens, hidden=z[0])
        return TextTokens(states=z.transpose(0, 1), bounds=self.tokens)


def select(
    z: Float[Tensor, "layers rows dim"], have: Sequence[int], wanted: Sequence[int]
) -> Float[Tensor, "wanted rows dim"]:
    """Return some layers; a view where they lie side by side, else a copy."""
    places = [have.index(layer) for layer in wanted]
    first, last = places[0], places[-1]
    if places == list(range(first, last + 1)):
        part = z[first : last + 1]
        # Products may take another path, and round differently, for unaligned memory.
        return part if part.data_ptr() % _ALIGNMENT == 0 else part.clone()
    return z.index_select(0, torch.tensor(places, device=z.device))


class Source:
    """Some layers of a view's rows, or the subwords of its examples, in memory or on disk.

    Attributes:
        view: the rows that are predicted.
        read_view: the rows that are read: the same, or the subwords that they are made of.
        layers: which layers, ascending.
        device: where they are wanted.
        resident: the rows in memory, or None when they stay on disk.
        tuned: what is trained of the model that makes them; None of rows in a cache.
    """

    tuned: Tuned | None = None

    def __init__(
        self,
        view: FeatureView,
        layers: Sequence[int],
        *,
        device: torch.device,
        resident: bool,
        decoded: bool = False,
        layout: Layout | None = None,
    ) -> None:
        """Choose rows and layers; load them when ``resident``.

        They are held as they are stored, or ``decoded``: int8 as float32, on the host alone.
        ``layout`` says how subwords make rows; None where rows are read.
        """
        self.view, self._layout = view, layout
        self.read_view = view if layout is None else layout.view
        self.layers, self.device = tuple(layers), device
        self._fitted: dict[str, Normalization] = {}
        self._targets = torch.from_numpy(view.targets).to(device)
        self.resident: StoredRows | None = None
        if resident and decoded:
            rows = self.read_view.array.read(self.read_view.rows, self.layers)
            self.resident = StoredRows(rows.permute(1, 0, 2))
        elif resident:
            on_host = device.type == "cpu"
            every = np.arange(len(self.read_view))
            self.resident = self.read(every) if on_host else self.copied()

    def read(self, places: Int64[np.ndarray, " rows"]) -> StoredRows:
        """Read rows of ``read_view`` from the cache, as stored."""
        return self.read_view.array.read_stored(self.read_view.rows[places], self.layers)

    def _prefetch(self, places: Int64[np.ndarray, " rows"]) -> None:
        """Ask for rows that are read next."""
        self.read_view.array.prefetch(self.read_view.rows[places], self.layers)

    def copied(self) -> StoredRows:
        """Return all rows on the device, of which the host never holds more than a part."""
        n_rows, part = len(self.read_view), max(_PART // self._bytes_of_row, 1)
        out = self.read(np.arange(0)).room(n_rows, self.device)
        for start in range(0, n_rows, part):
            stop = min(start + part, n_rows)
            out = out.put(start, self.read(np.arange(start, stop)))
        return out

    @property
    def _bytes_of_row(self) -> int:
        """Bytes of one row of all layers in memory."""
        return self.read_view.array.spec.row_nbytes * len(self.layers)

    def _inputs(
        self, z: Float[Tensor, "layers rows dim"], examples: Int64[np.ndarray, " some"]
    ) -> Inputs:
        """Return what was read of some examples, with their targets."""
        places = send(torch.from_numpy(self.view.places(examples)), self.device)
        offsets = send(torch.from_numpy(bounds_of(self.view.lengths[examples])), self.device)
        tokens = None if self._layout is None else self._layout.states(z, examples)
        return Inputs(z, self.layers, self._targets[places], offsets, tokens)

    def blocks(self) -> Iterator[Inputs]:
        """Yield all of the view in order, in blocks of whole examples.

        The blocks are a function of the view alone: a block's size may decide the last bits of a
        product, and nothing that a group of runs shares may change a run's result.
        """
        offsets = self.read_view.offsets
        bounds = block_bounds(offsets, block_rows(self.read_view))
        if len(bounds) == 1 < len(offsets):  # examples, none of which has a row: one empty block
            bounds.append(0)
        after = [*bounds[2:], bounds[-1]]
        asked = 0
        for start, stop, next_stop in zip(bounds, bounds[1:], after, strict=False):
            if self.resident is not None:
                z = self.resident.block(start, stop)
            else:
                self._prefetch(np.arange(asked, next_stop))  # a block ahead
                asked = next_stop
                z = self.read(np.arange(start, stop)).to(self.device).float32()
            # Examples without rows go with the block after them, and at the end with the last: of
            # 3, 0, 2 and 0 rows (bounds 0 3 3 5 5), the rows 0 to 3 are of the first example alone,
            # and the rows 3 to 5 of the three others.
            first = int(np.searchsorted(offsets, start)) if start else 0
            at_end = stop == offsets[-1]
            last = len(offsets) - 1 if at_end else int(np.searchsorted(offsets, stop))
            yield self._inputs(z, np.arange(first, last))

    def fitted(self, normalization: str) -> Normalization:
        """Return a normalisation fitted on what is read, for all of its layers; always the same.

        Raises:
            UnknownNameError: no normalisation has this name.
            OptionError: it cannot be had of these rows, or of the model that made them.
        """
        if normalization not in self._fitted:
            kind = choose("normalization", normalization, NORMALIZATIONS)
            blocks = (inputs.z.transpose(0, 1) for inputs in self.blocks())
            fitted = kind.fit(blocks, self.layers, self.read_view.facts)
            self._fitted[normalization] = fitted.to(self.device)
        return self._fitted[normalization]

    def batches(self, steps: Iterator[Step], *, memory: int) -> Generator[Inputs, None, None]:
        """Yield what each step reads, gathered from memory or read ahead from the cache.

        Args:
            steps: examples of each step, as positions in the view.
            memory: bytes that rows read ahead may take; unused when the rows are in memory.
        """
        if self.resident is not None:
            for step in steps:
                places = send(torch.from_numpy(self.read_view.places(step)), self.device)
                yield self._inputs(self.resident.gather(places), step)
            return
        heap = Heap()
        # closed here: a generator that is closed early may keep what it iterates over (Python 3.12)
        with closing(self._read_ahead(steps, memory)) as loaded:
            for group, wanted, block in loaded:
                for step in group:
                    heap.trim()
                    # Two steps of rows 7 9 and 2 9: 2 7 9 are read, at places 1 2 and 0 2.
                    places = torch.from_numpy(np.searchsorted(wanted, self.read_view.places(step)))
                    yield self._inputs(block.gather(send(places, self.device)), step)
                del block  # while the next one is fetched, a third is being read

    def _read_ahead(self, steps: Iterator[Step], memory: int) -> Generator["_Loaded", None, None]:
        """Yield some steps with their rows, reading those of the next ones meanwhile."""

        def load(group: list[Step]) -> _Loaded:
            wanted = np.unique(np.concatenate([self.read_view.places(step) for step in group]))
            self._prefetch(wanted)
            return group, wanted, self.read(wanted).to(self.device)

        with ThreadPoolExecutor(1, thread_name_prefix="probekit-read") as reader:
            waiting: Future[_Loaded] | None = None
            for group in self._fitting(steps, memory // 2):
                loading = reader.submit(load, group)
                if waiting is not None:
                    yield waiting.result()
                waiting = loading
            if waiting is not None:
                yield waiting.result()

    def _fitting(self, steps: Iterator[Step], memory: int) -> Iterator[list[Step]]:
        """Yield runs of steps whose rows fit ``memory``, at least one step each."""
        lengths = self.read_view.lengths
        group: list[Step] = []
        used = 0
        for step in steps:
            size = int(lengths[step].sum()) * self._bytes_of_row
            if group and used + size > memory:
                yield group
                group, used = [], 0
            group.append(step)
            used += size
        if group:
            yield group


_Loaded = tuple[list[Step], Int64[np.ndarray, " wanted"], StoredRows]


def block_rows(view: FeatureView) -> int:
    """Return the rows of a scoring block, whichever of the stored layers are read."""
    array = view.array
    fitting = _BLOCK_BYTES // (array.dim * len(array.layers) * torch.float32.itemsize)
    return max(min(_BLOCK_VALUES // array.dim, fitting), _LEAST_BLOCK)
