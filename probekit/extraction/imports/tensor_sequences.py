"""Sequences in files of tensors, or in arrays in memory."""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.base.fingerprint import digest, digest_file, digest_stream
from probekit.base.machine.hardware import usable_cores
from probekit.base.numbers.ragged import bounds_of
from probekit.errors import DataError, MissingFileError
from probekit.extraction.imports.sequences import Sequences, StatesShape
from probekit.extraction.imports.stored_tensors import (
    STATES,
    SUFFIXES,
    StoredTensor,
    check_archive,
    of_numpy,
    of_tensor,
    open_tensors,
)
from probekit.extraction.imports.tensor_part import (
    TOKEN_IDS,
    WORD_OFFSETS,
    TensorPart,
    words_of_offsets,
)


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
    held: Mapping[int, TensorPart] = field(default_factory=dict, repr=False)

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
            return words_of_offsets(part.owners, int(self.lengths[sequence]), n_words)
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
    def _digest_of(part: TensorPart) -> str:
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

    def _part(self, sequence: int) -> TensorPart:
        number = int(self.part_of[sequence])
        if number in self.held:
            return self.held[number]
        assert self.files is not None
        file = self.files[number]
        return TensorPart.of(open_tensors(file), str(file), self.layers_first)


def _file_digest(path: Path) -> str:
    if path.is_dir():
        return digest([[file.name, digest_file(file)] for file in sorted(path.glob("*.npy"))])
    if path.suffix == ".npz":
        check_archive(path)
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
    parts = (TensorPart.of(open_tensors(file), str(file), layers_first) for file in files)
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
    beside = {TOKEN_IDS: token_ids, WORD_OFFSETS: word_offsets}
    for name, values in beside.items():
        if values is not None and len(values) != len(states):
            raise DataError(f"{len(states):,} arrays of states, and {len(values):,} {name}.")

    def part(number: int) -> TensorPart:
        named = {name: values[number] for name, values in beside.items() if values is not None}
        where = f"states[{number}]"
        found = {STATES: states[number], **named}
        tensors = {name: _in_memory(one, f"{where}: {name}") for name, one in found.items()}
        return TensorPart.of(tensors, where, layers_first)

    return _gathered(map(part, range(len(states))), "the arrays", None, layers_first)


def _in_memory(values: Any, where: str) -> StoredTensor:
    return of_tensor(values, where) if isinstance(values, Tensor) else of_numpy(values, where)


def _gathered(
    parts: Iterable[TensorPart], where: str, files: tuple[Path, ...] | None, layers_first: bool
) -> TensorSequences:
    """Look at every part once, and check that they are of one kind."""
    first: TensorPart | None = None
    shape: StatesShape | None = None
    lengths: list[Int64[np.ndarray, " sequences"]] = []
    held: dict[int, TensorPart] = {}
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


def _described(shape: StatesShape, part: TensorPart) -> str:
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
