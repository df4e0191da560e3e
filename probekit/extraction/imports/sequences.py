"""Sequences of hidden states, one for each example: arrays in memory, or vLLM's files."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.fingerprint import digest, digest_file, digest_stream
from probekit.base.machine.hardware import usable_cores
from probekit.errors import DataError, MissingFileError
from probekit.extraction.imports.stored_tensors import (
    SUFFIX,
    StoredTensor,
    in_memory,
    open_tensors,
)

Form = Literal["token-ids", "word-ids", "words"]
"""What says whose a row is: ids of tokens, the word of each row, or nothing: a row per word."""

STATES, TOKEN_IDS, WORD_OFFSETS = "hidden_states", "token_ids", "word_offsets"

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WIDE = torch.float64


class StatesShape(NamedTuple):
    """What all sequences of a source have in common.

    Attributes:
        layers: how many layers each row has.
        dim: how wide a layer is.
        dtype: of the numbers, as they are read.
    """

    layers: int
    dim: int
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: StoredTensor, layers_first: bool) -> tuple[int, "StatesShape"]:
        """Return the rows of a tensor of states, and its shape.

        Raises:
            DataError: it is no tensor of (rows, layers, dim) floats.
        """
        if tensor.dtype not in _FLOATS:
            raise DataError(
                f"{tensor.where}: expected hidden states in float16, bfloat16 or float32, found "
                f"{tensor.dtype or 'a dtype that torch does not have'}. Convert it first (NumPy "
                "has no bfloat16: give float32)."
            )
        if len(tensor.shape) not in (2, 3):
            expected = "(layers, rows, dim)" if layers_first else "(rows, layers, dim)"
            raise DataError(
                f"{tensor.where}: expected {expected}, or (rows, dim) of one layer; found the "
                f"shape {tensor.shape}."
            )
        if len(tensor.shape) == 2:
            (rows, dim), layers = tensor.shape, 1
        else:
            first, second, dim = tensor.shape
            layers, rows = (first, second) if layers_first else (second, first)
        # nobody computes states with more digits than these
        dtype = torch.float32 if tensor.dtype == _WIDE else tensor.dtype
        return rows, cls(layers, dim, dtype)


class _Item(NamedTuple):
    """One sequence: its states, and what says whose its rows are."""

    where: str
    rows: int
    shape: StatesShape
    states: StoredTensor
    owners: StoredTensor | None
    form: Form

    @classmethod
    def of(cls, named: dict[str, StoredTensor], where: str, layers_first: bool) -> Self:
        """Find the tensors that are known by name.

        Raises:
            DataError: there are no states, or what says whose they are does not fit them.
        """
        if STATES not in named:
            raise DataError(
                f"{where}: no tensor {STATES!r}, of (rows, layers, dim); it holds "
                f"{', '.join(sorted(named)) or 'nothing'}."
            )
        states = named[STATES]
        rows, shape = StatesShape.of(states, layers_first)
        ids, offsets = named.get(TOKEN_IDS), named.get(WORD_OFFSETS)
        if ids is not None and offsets is not None:
            raise DataError(f"{where}: expected {TOKEN_IDS} or {WORD_OFFSETS}, found both.")
        if ids is not None and ids.shape != (rows,):
            raise DataError(
                f"{where}: {TOKEN_IDS} has the shape {ids.shape}, and {STATES} {rows:,} rows (its "
                f"shape is {states.shape}).{_turned(states, layers_first)}"
            )
        owners = offsets if ids is None else ids
        if owners is not None:
            owners.check_integers()
        form: Form = "words" if owners is None else "word-ids" if ids is None else "token-ids"
        return cls(where, rows, shape, states, owners, form)

    @property
    def described(self) -> str:
        """Its shape and form, in words."""
        dtype = str(self.shape.dtype).removeprefix("torch.")
        return f"{self.shape.layers} layers x {self.shape.dim} in {dtype} ({self.form})"


def _turned(tensor: StoredTensor, layers_first: bool) -> str:
    """Return what to do where the axes may be the other way round."""
    if len(tensor.shape) != 3:
        return ""
    return (
        " If rows come first, leave layers_first out."
        if layers_first
        else " If layers come first, as transformers stacks them, give layers_first=True."
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequences:
    """States by sequence, and what says whose they are.

    Attributes:
        where: where they lie, for messages.
        files: the file of each; None for arrays in memory.
        shape: layers, width and dtype, of all.
        form: what says whose state a row is.
        layers_first: whether layers come before rows.
    """

    where: str
    files: tuple[Path, ...] | None
    shape: StatesShape
    form: Form
    layers_first: bool
    _items: Sequence[_Item] = field(repr=False)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self._items)

    @property
    def lengths(self) -> Int64[np.ndarray, " sequences"]:
        """Rows of each sequence."""
        return np.array([item.rows for item in self._items], np.int64)

    @property
    def of_requests(self) -> bool:
        """Whether they are what vLLM writes, a file with token ids per request."""
        return self.files is not None

    @property
    def ordered(self) -> bool:
        """Whether they come in the order of the examples; else their token ids tell."""
        return self.files is None or len(self.files) == 1

    def name(self, sequence: int) -> str:
        """Return what a sequence is called, for messages."""
        return self._items[sequence].where

    def token_ids(self, sequence: int) -> Int64[np.ndarray, " rows"]:
        """Return the vocabulary id of each row, of the form ``token-ids``."""
        owners = self._items[sequence].owners
        assert owners is not None
        return owners.integers()

    def word_ids(self, sequence: int, n_words: int) -> Int64[np.ndarray, " rows"]:
        """Return the word of each row, -1 for none, of the form ``word-ids``.

        Word j has the rows ``offsets[j]`` to ``offsets[j + 1]``.

        Raises:
            DataError: that is not so of an example with so many words.
        """
        item = self._items[sequence]
        assert item.owners is not None
        offsets, rows = item.owners.integers(), item.rows
        if len(offsets) != n_words + 1:
            raise DataError(
                f"{item.owners.where}: expected {n_words + 1} offsets for the {n_words} words of "
                f"the example, the end of the last one included; found {len(offsets)}."
            )
        if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > rows:
            raise DataError(
                f"{item.owners.where}: offsets must not decrease, from 0 or more to at most {rows} "
                f"rows; found {offsets[:8].tolist()}..."
            )
        found = np.full(rows, -1, np.int64)
        found[offsets[0] : offsets[-1]] = np.repeat(np.arange(n_words), np.diff(offsets))
        return found

    def read(self, sequence: int) -> Float[Tensor, "rows layers dim"]:
        """Return the states of a sequence, their layers in the source's order.

        Raises:
            DataError: they are not what they were.
        """
        item = self._items[sequence]
        found = item.states.read()
        if found.ndim == 2:
            found = found[:, None]
        elif self.layers_first:
            found = found.transpose(0, 1)
        if found.shape != (item.rows, self.shape.layers, self.shape.dim):
            raise DataError(f"{item.where} has changed while it was read; start again.")
        return found.to(self.shape.dtype)

    def digest(self, used: Sequence[int]) -> str:
        """Return the fingerprint (64 hex digits) of some sequences, in that order."""
        if self.files is None:
            return digest([_digest_of(self._items[number]) for number in used])
        files = [self.files[number] for number in used]
        with ThreadPoolExecutor(usable_cores()) as threads:
            return digest(list(threads.map(digest_file, files)))


def _digest_of(item: _Item) -> str:
    tensors = [one for one in (item.states, item.owners) if one is not None]
    about = (f"{one.dtype} {one.shape}".encode() for one in tensors)
    values = (one.read().contiguous().view(-1).view(torch.uint8).numpy().data for one in tensors)
    return digest_stream([*about, *values])


def request_files(path: Path) -> Sequences:
    """Open what vLLM's connector wrote: a safetensors file per request, or a folder of them.

    Names mean nothing: token ids tell whose they are.

    Raises:
        MissingFileError: there is no such file.
        DataError: a file cannot be read, or does not hold what is expected.
    """
    files = [path]
    if path.is_dir():
        files = sorted((file for file in path.glob(f"*{SUFFIX}")), key=_by_numbers)
        if not files:
            raise MissingFileError(f"{path}: no file of hidden states there; expected *{SUFFIX}.")
    items = []
    for file in files:
        item = _Item.of(open_tensors(file), str(file), layers_first=False)
        if item.form != "token-ids":
            raise DataError(
                f"{file}: no tensor {TOKEN_IDS!r}, which vLLM writes beside {STATES}. Read other "
                "files yourself, and give arrays to probekit.import_states."
            )
        items.append(item)
    return _gathered(items, str(path), tuple(files), layers_first=False)


def _by_numbers(file: Path) -> list[tuple[int, str]]:
    """Order names as people do: hs_2 before hs_10."""
    pieces = re.split(r"(\d+)", file.name)
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]


def given_sequences(
    states: Iterable[Any],
    token_ids: Iterable[Any] | None,
    word_offsets: Iterable[Any] | None,
    *,
    layers_first: bool,
) -> Sequences:
    """Return arrays in memory as sequences: an array for each example, in their order.

    Raises:
        DataError: they are not as many as their ids or offsets, or not what is expected.
    """
    given = {STATES: states, TOKEN_IDS: token_ids, WORD_OFFSETS: word_offsets}
    listed = {name: list(values) for name, values in given.items() if values is not None}
    for name, values in listed.items():
        if len(values) != len(listed[STATES]):
            raise DataError(
                f"{len(listed[STATES]):,} arrays of states, and {len(values):,} {name}."
            )

    def item(number: int) -> _Item:
        where = f"states[{number}]"
        named = {name: in_memory(own[number], f"{where}: {name}") for name, own in listed.items()}
        return _Item.of(named, where, layers_first)

    items = [item(number) for number in range(len(listed[STATES]))]
    return _gathered(items, "the arrays", None, layers_first)


def _gathered(
    items: Sequence[_Item], where: str, files: tuple[Path, ...] | None, layers_first: bool
) -> Sequences:
    """Check that sequences are of one kind.

    Raises:
        DataError: they are not, or there are none.
    """
    if not items:
        raise DataError(f"{where}: no states.")
    first = items[0]
    for item in items:
        if (item.shape, item.form) != (first.shape, first.form):
            raise DataError(
                f"{item.states.where}: {item.described}, and the first one has "
                f"{first.described}. All sequences of a split must be alike."
            )
    return Sequences(
        where=where, files=files, shape=first.shape, form=first.form, layers_first=layers_first,
        _items=items,
    )  # fmt: skip
