"""Sequences of hidden states: one for each example, read one at a time."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.fingerprint import digest, digest_file, digest_stream
from probekit.base.machine.hardware import usable_cores
from probekit.base.numbers.ragged import bounds_of
from probekit.errors import DataError, MissingFileError
from probekit.extraction.imports.stored_tensors import (
    STATES,
    SUFFIXES,
    StoredTensor,
    of_numpy,
    of_tensor,
    open_tensors,
)

Form = Literal["token-ids", "word-ids", "words"]
"""What says whose a row is: ids of tokens, the word of each row, or nothing: a row per word."""

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WIDE = torch.float64
_TOKENS = ("token_ids", "input_ids")
_OFFSETS, _WORDS, _LENGTHS, _LAYERS = "word_offsets", "word_ids", "lengths", "layer_ids"


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
        if tensor.dtype not in FLOATS:
            raise DataError(
                f"{tensor.where}: expected hidden states in float16, bfloat16 or float32, found "
                f"{tensor.dtype or 'a dtype that torch does not have'}. Convert it first (NumPy "
                "has no bfloat16: save float32)."
            )
        if len(tensor.shape) not in (2, 3):
            axes = "(layers, rows, dim)" if layers_first else "(rows, layers, dim)"
            raise DataError(
                f"{tensor.where}: expected {axes}, or (rows, dim) of one layer; found the shape "
                f"{tensor.shape}."
            )
        if len(tensor.shape) == 2:
            rows, layers, dim = tensor.shape[0], 1, tensor.shape[1]
        elif layers_first:
            layers, rows, dim = tensor.shape
        else:
            rows, layers, dim = tensor.shape
        # nobody computes states with more digits than these
        dtype = torch.float32 if tensor.dtype == _WIDE else tensor.dtype
        return rows, cls(layers, dim, dtype)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequences(ABC):
    """States by sequence, and what says whose they are.

    Attributes:
        where: where they lie, for messages.
        lengths: rows of each sequence.
        shape: layers, width and dtype, of all.
        form: what says whose state a row is.
        ordered: whether they come in the order of the examples; else their token ids tell.
        layer_ids: the numbers of their layers, in their order, where the files say them.
    """

    where: str
    lengths: Int64[np.ndarray, " sequences"]
    shape: StatesShape
    form: Form
    ordered: bool = True
    layer_ids: tuple[int, ...] | None = None

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.lengths)

    @property
    def of_requests(self) -> bool:
        """Whether they may be what vLLM writes, a safetensors file with token ids per request."""
        return False

    def text(self, sequence: int) -> str | None:
        """Return the words of a sequence with spaces between, where the source has them."""
        return None

    @abstractmethod
    def name(self, sequence: int) -> str:
        """Return what a sequence is called, for messages."""

    @abstractmethod
    def token_ids(self, sequence: int) -> Int64[np.ndarray, " rows"]:
        """Return the vocabulary id of each row, of the form ``token-ids``."""

    @abstractmethod
    def word_ids(self, sequence: int, n_words: int) -> Int64[np.ndarray, " rows"]:
        """Return the word of each row, -1 for none, of the form ``word-ids``.

        Raises:
            DataError: that is not so of an example with so many words.
        """

    @abstractmethod
    def read(self, sequence: int) -> Float[Tensor, "rows layers dim"]:
        """Return the states of a sequence, their layers in the source's order.

        Raises:
            DataError: they are not what they were.
        """

    @abstractmethod
    def digest(self, used: Sequence[int]) -> str:
        """Return the fingerprint (64 hex digits) of what some sequences lie in, in that order."""


class _Part(NamedTuple):
    """The tensors of one file, or of one item of a list."""

    states: StoredTensor
    owners: StoredTensor | None
    lengths: Int64[np.ndarray, " sequences"]
    layer_ids: tuple[int, ...] | None
    form: Form
    offsets: bool

    @classmethod
    def of(cls, named: Mapping[str, StoredTensor], where: str, layers_first: bool) -> "_Part":
        """Find the tensors that are known by name.

        Raises:
            DataError: there are no states, or what says whose they are does not fit them.
        """
        if STATES not in named:
            raise DataError(
                f"{where}: no tensor {STATES!r}, of (rows, layers, dim); it holds "
                f"{', '.join(sorted(named)) or 'nothing'}."
            )
        rows, _ = StatesShape.of(named[STATES], layers_first)
        owning = [name for name in (*_TOKENS, _OFFSETS, _WORDS) if name in named]
        if len(owning) > 1:
            raise DataError(f"{where}: expected one of {', '.join(owning)}, found all of them.")
        owners = named[owning[0]] if owning else None
        offsets = owning == [_OFFSETS]
        lengths = np.array([rows], np.int64)
        if _LENGTHS in named:
            lengths = integers(named[_LENGTHS])
            if offsets:
                raise DataError(f"{where}: {_OFFSETS} is for one sequence; give {_WORDS}.")
            if lengths.sum() != rows or (lengths < 0).any():
                raise DataError(
                    f"{where}: the lengths add up to {lengths.sum():,}, and {STATES} has {rows:,} "
                    f"rows.{_turned(named[STATES], layers_first)}"
                )
        if owners is not None and not offsets and owners.shape != (rows,):
            raise DataError(
                f"{where}: {owning[0]} has the shape {owners.shape}, and {STATES} {rows:,} rows "
                f"(its shape is {named[STATES].shape}).{_turned(named[STATES], layers_first)}"
            )
        said = tuple(integers(named[_LAYERS]).tolist()) if _LAYERS in named else None
        token_ids = bool(owning) and owning[0] in _TOKENS
        form: Form = "token-ids" if token_ids else "word-ids" if owning else "words"
        return cls(named[STATES], owners, lengths, said, form, offsets)


def _turned(tensor: StoredTensor, layers_first: bool) -> str:
    """Return what to do where the axes may be the other way round."""
    if len(tensor.shape) != 3:
        return ""
    return (
        " If rows come first, leave --layers-first out."
        if layers_first
        else (" If layers come first, as transformers stacks them, give --layers-first.")
    )


def integers(tensor: StoredTensor) -> Int64[np.ndarray, " numbers"]:
    """Read a list of whole numbers.

    Raises:
        DataError: it is none.
    """
    floating = tensor.dtype is None or tensor.dtype.is_floating_point or tensor.dtype.is_complex
    if len(tensor.shape) != 1 or floating:
        raise DataError(
            f"{tensor.where}: expected a list of whole numbers, found {tensor.dtype} of the shape "
            f"{tensor.shape}."
        )
    return tensor.whole().numpy().astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorSequences(Sequences):
    """Sequences in files of tensors: one in each, or several one after the other, by ``lengths``.

    Attributes:
        files: the files (or folders of ``.npy`` files), in their order; None for arrays in memory.
        part_of: the file of each sequence, by its number.
        starts: the first row of each sequence in its file.
        layers_first: whether layers come before rows.
        held: the parts, where they are in memory or few; others are opened again when needed.
    """

    files: tuple[Path, ...] | None
    part_of: Int64[np.ndarray, " sequences"]
    starts: Int64[np.ndarray, " sequences"]
    layers_first: bool
    held: Mapping[int, _Part] = field(default_factory=dict, repr=False)

    @property
    def of_requests(self) -> bool:
        """Whether each lies in a safetensors file of its own, with token ids."""
        files = () if self.files is None else self.files
        alone = len(files) == len(self.lengths) > 0
        safe = all(file.suffix == ".safetensors" for file in files)
        return alone and safe and self.form == "token-ids"

    def name(self, sequence: int) -> str:
        """Return its file, and its number there if that has several."""
        part = int(self.part_of[sequence])
        where = f"{self.where}: item" if self.files is None else str(self.files[part])
        if self.files is None:
            return f"{where} {part}"
        first = int(np.searchsorted(self.part_of, part))
        several = int(np.searchsorted(self.part_of, part, side="right")) - first > 1
        return f"{where}, sequence {sequence - first}" if several else where

    def token_ids(self, sequence: int) -> Int64[np.ndarray, " rows"]:
        """Read the ids of its rows."""
        part = self._part(sequence)
        assert part.owners is not None
        return self._owners(part.owners, sequence)

    def word_ids(self, sequence: int, n_words: int) -> Int64[np.ndarray, " rows"]:
        """Read the words of its rows, or turn offsets into them."""
        part = self._part(sequence)
        assert part.owners is not None
        if part.offsets:
            return _from_offsets(part.owners, int(self.lengths[sequence]), n_words)
        found = self._owners(part.owners, sequence)
        inside = found[found >= 0]
        least, most = found.min(initial=0), found.max(initial=-1)
        if most >= n_words or least < -1 or (np.diff(inside) < 0).any():
            raise DataError(
                f"{self.name(sequence)}: expected the words of its rows in their order, 0 to "
                f"{n_words - 1} and -1 for none; found {least} to {most}."
            )
        return found

    def read(self, sequence: int) -> Float[Tensor, "rows layers dim"]:
        """Read its states."""
        tensor = self._part(sequence).states
        start, rows = int(self.starts[sequence]), int(self.lengths[sequence])
        taken = slice(start, start + rows)
        if len(tensor.shape) == 2:
            found = tensor.read((taken, slice(None)))[:, None]
        elif self.layers_first:
            found = tensor.read((slice(None), taken, slice(None))).transpose(0, 1)
        else:
            found = tensor.read((taken, slice(None), slice(None)))
        if found.shape != (rows, self.shape.layers, self.shape.dim):
            raise DataError(f"{self.name(sequence)} has changed while it was read; start again.")
        return found.to(self.shape.dtype)

    def digest(self, used: Sequence[int]) -> str:
        """Hash the files, or the arrays; a file once."""
        parts = list(dict.fromkeys(self.part_of[list(used)].tolist()))
        if self.files is None:
            return digest([self._digest_of(self.held[part]) for part in parts])
        files = [self.files[part] for part in parts]
        with ThreadPoolExecutor(usable_cores()) as threads:
            return digest(list(threads.map(_file_digest, files)))

    @staticmethod
    def _digest_of(part: _Part) -> str:
        owners = () if part.owners is None else (part.owners,)
        about = (f"{one.dtype} {one.shape}".encode() for one in (part.states, *owners))
        values = (
            one.whole().contiguous().view(-1).view(torch.uint8).numpy().data
            for one in (part.states, *owners)
        )
        return digest_stream([*about, *values])

    def _owners(self, owners: StoredTensor, sequence: int) -> Int64[np.ndarray, " rows"]:
        start = int(self.starts[sequence])
        taken = owners.read((slice(start, start + int(self.lengths[sequence])),))
        return taken.numpy().astype(np.int64)

    def _part(self, sequence: int) -> _Part:
        number = int(self.part_of[sequence])
        if number in self.held:
            return self.held[number]
        assert self.files is not None
        file = self.files[number]
        return _Part.of(open_tensors(file), str(file), self.layers_first)


def _from_offsets(tensor: StoredTensor, rows: int, n_words: int) -> Int64[np.ndarray, " rows"]:
    """Return the word of each row: word j has the rows ``offsets[j]`` to ``offsets[j + 1]``."""
    offsets = integers(tensor)
    if len(offsets) != n_words + 1:
        raise DataError(
            f"{tensor.where}: expected {n_words + 1} offsets for the {n_words} words of the "
            f"example, the end of the last one included; found {len(offsets)}."
        )
    if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > rows:
        raise DataError(
            f"{tensor.where}: offsets must not decrease, from 0 or more to at most {rows} rows; "
            f"found {offsets[:8].tolist()}..."
        )
    found = np.full(rows, -1, np.int64)
    found[offsets[0] : offsets[-1]] = np.repeat(np.arange(n_words), np.diff(offsets))
    return found


def _file_digest(path: Path) -> str:
    if path.is_dir():
        return digest([[file.name, digest_file(file)] for file in sorted(path.glob("*.npy"))])
    return digest_file(path)


def tensor_sequences(path: Path, *, layers_first: bool) -> TensorSequences:
    """Open a file of tensors, a folder of such files, or a folder of ``.npy`` files, one a tensor.

    Files that hold a single sequence with its token ids, as vLLM writes them for each request, are
    in no order that means anything: their ids tell whose they are. All others are in the order of
    the examples, files in the order of the numbers in their names.

    Raises:
        MissingFileError: there is no such file, or none of a known format.
        DataError: a file cannot be read, or does not hold what is expected.
    """
    files = _files_of(path)
    parts = (_Part.of(open_tensors(file), str(file), layers_first) for file in files)
    return _gathered(parts, str(path), tuple(files), layers_first)


def given_sequences(
    states: Sequence[Any],
    token_ids: Sequence[Any] | None,
    word_offsets: Sequence[Any] | None,
    *,
    layers_first: bool,
) -> TensorSequences:
    """Return arrays in memory as sequences: an array for each example, in their order.

    Raises:
        DataError: they are not as many as their ids or offsets, or not what is expected.
    """
    beside = {_TOKENS[0]: token_ids, _OFFSETS: word_offsets}
    for name, values in beside.items():
        if values is not None and len(values) != len(states):
            raise DataError(f"{len(states):,} arrays of states, and {len(values):,} {name}.")

    def part(number: int) -> _Part:
        named = {name: values[number] for name, values in beside.items() if values is not None}
        where = f"states[{number}]"
        found = {STATES: states[number], **named}
        tensors = {name: _in_memory(one, f"{where}: {name}") for name, one in found.items()}
        return _Part.of(tensors, where, layers_first)

    return _gathered(map(part, range(len(states))), "the arrays", None, layers_first)


def _in_memory(values: Any, where: str) -> StoredTensor:
    return of_tensor(values, where) if isinstance(values, Tensor) else of_numpy(values, where)


def _gathered(
    parts: Iterable[_Part], where: str, files: tuple[Path, ...] | None, layers_first: bool
) -> TensorSequences:
    """Look at every part once, and check that they are of one kind."""
    first: _Part | None = None
    shape: StatesShape | None = None
    lengths: list[Int64[np.ndarray, " sequences"]] = []
    held: dict[int, _Part] = {}
    keep = files is None or len(files) == 1 or all(file.is_dir() for file in files)
    for number, part in enumerate(parts):
        found = StatesShape.of(part.states, layers_first)[1]
        kind = (part.form, part.layer_ids)
        if first is None or shape is None:
            first, shape = part, found
        elif found != shape or kind != (first.form, first.layer_ids):
            raise DataError(
                f"{part.states.where}: {_described(found, part)}, and the first one has "
                f"{_described(shape, first)}. All sequences of a split must be alike."
            )
        lengths.append(part.lengths)
        if keep:
            held[number] = part
    if first is None or shape is None:
        raise DataError(f"{where}: no states.")
    counts = [len(of) for of in lengths]
    alone = files is not None and len(files) > 1 and max(counts) == 1
    return TensorSequences(
        where=where,
        lengths=np.concatenate(lengths),
        shape=shape,
        form=first.form,
        ordered=not (alone and first.form == "token-ids"),
        layer_ids=first.layer_ids,
        files=files,
        part_of=np.repeat(np.arange(len(counts)), counts),
        starts=np.concatenate([bounds_of(of)[:-1] for of in lengths]),
        layers_first=layers_first,
        held=held,
    )


def _described(shape: StatesShape, part: _Part) -> str:
    said = "" if part.layer_ids is None else f" {list(part.layer_ids)}"
    return (
        f"{shape.layers} layers{said} x {shape.dim} in {str(shape.dtype).removeprefix('torch.')} "
        f"({part.form})"
    )


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / f"{STATES}.npy").exists():
        return [path]
    files = [file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file()]
    if not files:
        raise MissingFileError(
            f"{path}: no file of hidden states there; expected {', '.join(SUFFIXES)}."
        )
    return sorted(files, key=_by_numbers)


def _by_numbers(file: Path) -> list[tuple[int, str]]:
    """Order names as people do: hs_2 before hs_10."""
    pieces = re.split(r"(\d+)", file.name)
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]
