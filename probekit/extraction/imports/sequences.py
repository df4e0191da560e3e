"""Sequences of hidden states, one for each example: arrays in memory, or vLLM's files."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from torch import Tensor

from probekit.base.fingerprint import digest, digest_file, digest_stream
from probekit.base.machine import usable_cores
from probekit.errors import DataError, MissingFileError, reason_of

Form = Literal["token-ids", "word-ids", "words"]
"""What says whose a row is: ids of tokens, the word of each row, or nothing: a row per word."""

STATES, TOKEN_IDS, WORD_OFFSETS = "hidden_states", "token_ids", "word_offsets"

_SUFFIX = ".safetensors"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WHOLE = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)
_NOT_OF_TORCH = "a dtype that torch does not have"


class _Stored(NamedTuple):
    """A tensor in memory, or in a file of which it is read when it is asked for.

    Attributes:
        where: file or item, and name, for messages.
        shape: its shape.
        dtype: its dtype; in words, for one that torch does not have.
        read: returns it in the machine's byte order.
    """

    where: str
    shape: tuple[int, ...]
    dtype: torch.dtype | str
    read: Callable[[], Tensor]

    @classmethod
    def of_file(cls, path: Path, name: str, part: Any) -> Self:
        """Return a tensor of a safetensors file; it is opened for every reading.

        There may be more such files than a process can hold open.
        """

        def read() -> Tensor:
            with safe_open(path, "pt") as file:
                tensor: Tensor = file.get_tensor(name)
                return tensor

        shape = tuple(part.get_shape())
        dtype: torch.dtype | str = _NOT_OF_TORCH if shape else "a single number"
        if shape:
            with suppress(AttributeError, RuntimeError, SafetensorError):  # such as four bits each
                dtype = part[:0].dtype
        return cls(f"{path}: {name}", shape, dtype, read)

    @classmethod
    def of_memory(cls, values: Any, where: str) -> Self:
        """Return an array of PyTorch or NumPy, in memory or mapped.

        Raises:
            DataError: it is sparse or quantized, or of Python objects.
        """
        if isinstance(values, Tensor):
            if values.layout != torch.strided or values.is_quantized:
                raise DataError(f"{where}: expected a plain tensor, not a sparse or quantized one.")
            plain = values.detach()
            return cls(where, tuple(plain.shape), plain.dtype, plain.cpu)
        array = np.asarray(values)
        if array.dtype.hasobject:
            raise DataError(f"{where}: an array of Python objects; give one array per example.")

        def read() -> Tensor:
            # a copy: what is mapped cannot be written, and torch knows one byte order alone
            return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))

        dtype: torch.dtype | str = _NOT_OF_TORCH
        with suppress(TypeError):
            dtype = torch.from_numpy(np.empty(0, array.dtype.newbyteorder("="))).dtype
        return cls(where, array.shape, dtype, read)


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


class _Item(NamedTuple):
    """One sequence: its states, and what says whose its rows are."""

    where: str
    rows: int
    shape: StatesShape
    states: _Stored
    owners: _Stored | None
    form: Form

    @classmethod
    def of(cls, named: Mapping[str, _Stored], where: str, layers_first: bool) -> Self:
        """Find the tensors that are known by name.

        Raises:
            DataError: there are no states, of (rows, layers, dim) floats, or what says whose they
                are does not fit them.
        """
        if STATES not in named:
            raise DataError(
                f"{where}: no tensor {STATES!r}, of (rows, layers, dim); it holds "
                f"{', '.join(sorted(named)) or 'nothing'}."
            )
        states, ids, offsets = named[STATES], named.get(TOKEN_IDS), named.get(WORD_OFFSETS)
        if states.dtype not in _FLOATS:
            raise DataError(
                f"{states.where}: expected hidden states in float16, bfloat16 or float32, found "
                f"{states.dtype}. Convert it first (NumPy has no bfloat16: give float32)."
            )
        if len(states.shape) not in (2, 3):
            expected = "(layers, rows, dim)" if layers_first else "(rows, layers, dim)"
            raise DataError(
                f"{states.where}: expected {expected}, or (rows, dim) of one layer; found the "
                f"shape {states.shape}."
            )
        rows, layers = states.shape[0], 1
        if len(states.shape) == 3:
            rows, layers = states.shape[1::-1] if layers_first else states.shape[:2]
        # nobody computes states with more digits than these
        dtype = torch.float32 if states.dtype == torch.float64 else states.dtype
        assert isinstance(dtype, torch.dtype)
        if ids is not None and offsets is not None:
            raise DataError(f"{where}: expected {TOKEN_IDS} or {WORD_OFFSETS}, found both.")
        if ids is not None and ids.shape != (rows,):
            turned = (
                "If rows come first, leave layers_first out."
                if layers_first
                else "If layers come first, as transformers stacks them, give layers_first=True."
            )
            raise DataError(
                f"{where}: {TOKEN_IDS} has the shape {ids.shape}, but {STATES} has {rows:,} rows "
                f"(its shape is {states.shape}).{f' {turned}' if len(states.shape) == 3 else ''}"
            )
        owners = offsets if ids is None else ids
        if owners is not None and (len(owners.shape) != 1 or owners.dtype not in _WHOLE):
            raise DataError(
                f"{owners.where}: expected a list of whole numbers, found {owners.dtype} of "
                f"the shape {owners.shape}."
            )
        form: Form = "words" if owners is None else "word-ids" if ids is None else "token-ids"
        shape = StatesShape(layers, states.shape[-1], dtype)
        return cls(where, rows, shape, states, owners, form)

    @property
    def described(self) -> str:
        """Its shape and form, in words."""
        dtype = str(self.shape.dtype).removeprefix("torch.")
        return f"{self.shape.layers} layers x {self.shape.dim} in {dtype} ({self.form})"

    def digest(self) -> str:
        """Return the fingerprint of all that it holds."""
        tensors = [tensor for tensor in (self.states, self.owners) if tensor is not None]
        about = (f"{tensor.dtype} {tensor.shape}".encode() for tensor in tensors)
        values = (
            tensor.read().contiguous().view(-1).view(torch.uint8).numpy().data for tensor in tensors
        )
        return digest_stream([*about, *values])


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequences:
    """States by sequence, and what says whose they are.

    Attributes:
        where: where they lie, for messages.
        files: the file of each, as vLLM writes it for a request; None for arrays in memory.
        layers_first: whether layers come before rows.
    """

    where: str
    files: tuple[Path, ...] | None
    layers_first: bool
    _items: Sequence[_Item] = field(repr=False)

    def __post_init__(self) -> None:
        """Check that sequences are of one kind.

        Raises:
            DataError: they are not, or there are none.
        """
        if not self._items:
            raise DataError(f"{self.where}: no states.")
        first = self._items[0]
        for item in self._items:
            if (item.shape, item.form) != (first.shape, first.form):
                raise DataError(
                    f"{item.states.where}: {item.described}, but the first one has "
                    f"{first.described}. All sequences of a split must be alike."
                )

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self._items)

    @property
    def shape(self) -> StatesShape:
        """Layers, width and dtype, of all."""
        return self._items[0].shape

    @property
    def form(self) -> Form:
        """What says whose state a row is."""
        return self._items[0].form

    @property
    def lengths(self) -> Int64[np.ndarray, " sequences"]:
        """Rows of each sequence."""
        return np.array([item.rows for item in self._items], np.int64)

    @property
    def ordered(self) -> bool:
        """Whether they come in the order of the examples; else their token ids tell."""
        return self.files is None or len(self.files) == 1

    def name(self, sequence: int) -> str:
        """Return what a sequence is called, for messages."""
        return self._items[sequence].where

    def owners(self, sequence: int) -> Int64[np.ndarray, " numbers"]:
        """Return the vocabulary id of each row, or where the words begin and the last one ends."""
        owners = self._items[sequence].owners
        assert owners is not None
        return owners.read().numpy().astype(np.int64)

    def word_ids(self, sequence: int, n_words: int) -> Int64[np.ndarray, " rows"]:
        """Return the word of each row, -1 for none, of the form ``word-ids``.

        Word j has the rows ``offsets[j]`` to ``offsets[j + 1]``.

        Raises:
            DataError: that is not so of an example with so many words.
        """
        where, offsets = f"{self.name(sequence)}: {WORD_OFFSETS}", self.owners(sequence)
        rows = self._items[sequence].rows
        if len(offsets) != n_words + 1:
            raise DataError(
                f"{where}: expected {n_words + 1} offsets for the {n_words} words of the example, "
                f"the end of the last one included; found {len(offsets)}."
            )
        if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > rows:
            raise DataError(
                f"{where}: offsets must not decrease, from 0 or more to at most {rows} rows; found "
                f"{offsets[:8].tolist()}..."
            )
        words = np.full(rows, -1, np.int64)
        words[offsets[0] : offsets[-1]] = np.repeat(np.arange(n_words), np.diff(offsets))
        return words

    def read(self, sequence: int) -> Float[Tensor, "rows layers dim"]:
        """Return the states of a sequence, their layers in the source's order.

        Raises:
            DataError: they are not what they were.
        """
        item = self._items[sequence]
        states = item.states.read()
        if states.ndim == 2:
            states = states[:, None]
        elif self.layers_first:
            states = states.transpose(0, 1)
        if states.shape != (item.rows, self.shape.layers, self.shape.dim):
            raise DataError(f"{item.where} changed while it was being read; run the command again.")
        return states.to(self.shape.dtype)

    def digest(self, used: Sequence[int]) -> str:
        """Return the fingerprint (64 hex digits) of some sequences, in that order."""
        if self.files is None:
            return digest([self._items[number].digest() for number in used])
        files = [self.files[number] for number in used]
        with ThreadPoolExecutor(usable_cores()) as threads:
            return digest(list(threads.map(digest_file, files)))


def request_files(path: Path) -> Sequences:
    """Open what vLLM's connector wrote: a safetensors file per request, or a folder of them.

    Names mean nothing: token ids tell whose they are.

    Raises:
        MissingFileError: there is no such file.
        DataError: a file cannot be read, or does not hold what is expected.
    """
    files = [path]
    if path.is_dir():
        files = sorted(path.glob(f"*{_SUFFIX}"), key=_by_numbers)
        if not files:
            raise MissingFileError(f"{path}: no file of hidden states there; expected *{_SUFFIX}.")
    items = []
    for file in files:
        item = _Item.of(_open_file(file), str(file), layers_first=False)
        if item.form != "token-ids":
            raise DataError(
                f"{file}: no tensor {TOKEN_IDS!r}, which vLLM writes beside {STATES}. Read other "
                "files yourself, and give arrays to probekit.import_states."
            )
        items.append(item)
    return Sequences(where=str(path), files=tuple(files), layers_first=False, _items=items)


def _open_file(path: Path) -> dict[str, _Stored]:
    """Return the tensors of a safetensors file by name; errors are those of `request_files`."""
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder. Check the path.")
    if path.suffix != _SUFFIX:
        raise DataError(
            f"{path}: expected a {_SUFFIX} file, or a folder of them. Read other files yourself, "
            "and give arrays to probekit.import_states."
        )
    try:
        with safe_open(path, "pt") as file:
            names = [*file.keys()]
            return {name: _Stored.of_file(path, name, file.get_slice(name)) for name in names}
    except Exception as error:  # the library raises kinds of its own for damage
        raise DataError(
            f"{path} cannot be read ({reason_of(error)}). It is damaged: write it again."
        ) from error


def _by_numbers(file: Path) -> list[tuple[int, str]]:
    """Order names as people do, hs_2 before hs_10: of requests made twice, the first one counts."""
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
    count = len(listed[STATES])
    for name, values in listed.items():
        if len(values) != count:
            raise DataError(f"{count:,} arrays of states, but {len(values):,} {name}.")
    items = []
    for number in range(count):
        where = f"states[{number}]"
        named = {
            name: _Stored.of_memory(values[number], f"{where}: {name}")
            for name, values in listed.items()
        }
        items.append(_Item.of(named, where, layers_first))
    return Sequences(where="the arrays", files=None, layers_first=layers_first, _items=items)
