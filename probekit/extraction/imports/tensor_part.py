"""What one file of tensors holds: states, whose they are, lengths of sequences, layer numbers."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64

from probekit.errors import DataError
from probekit.extraction.imports.sequences import Form, StatesShape
from probekit.extraction.imports.stored_tensors import STATES, StoredTensor

TOKEN_IDS, WORD_OFFSETS = "token_ids", "word_offsets"
_TOKENS = (TOKEN_IDS, "input_ids")
_WORDS, _LENGTHS, _LAYERS = "word_ids", "lengths", "layer_ids"
_WHOLE = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)


class TensorPart(NamedTuple):
    """The tensors of one file, or of one item of a list."""

    states: StoredTensor
    owners: StoredTensor | None
    lengths: Int64[np.ndarray, " sequences"]
    layer_ids: tuple[int, ...] | None
    form: Form
    offsets: bool

    @classmethod
    def of(cls, named: Mapping[str, StoredTensor], where: str, layers_first: bool) -> "TensorPart":
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
        owning = [name for name in (*_TOKENS, WORD_OFFSETS, _WORDS) if name in named]
        if len(owning) > 1:
            raise DataError(f"{where}: expected one of {', '.join(owning)}, found all of them.")
        owners = named[owning[0]] if owning else None
        offsets = owning == [WORD_OFFSETS]
        lengths = np.array([rows], np.int64)
        if _LENGTHS in named:
            lengths = _integers(named[_LENGTHS])
            if offsets:
                raise DataError(f"{where}: {WORD_OFFSETS} is for one sequence; give {_WORDS}.")
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
        if owners is not None:
            _check_integers(owners)
        said = tuple(_integers(named[_LAYERS]).tolist()) if _LAYERS in named else None
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


def _integers(tensor: StoredTensor) -> Int64[np.ndarray, " numbers"]:
    """Read a list of whole numbers.

    Raises:
        DataError: it is none.
    """
    _check_integers(tensor)
    return tensor.whole().numpy().astype(np.int64)


def _check_integers(tensor: StoredTensor) -> None:
    if len(tensor.shape) != 1 or tensor.dtype not in _WHOLE:
        raise DataError(
            f"{tensor.where}: expected a list of whole numbers, found "
            f"{tensor.dtype or 'a dtype that torch does not have'} of the shape {tensor.shape}."
        )


def words_of_offsets(tensor: StoredTensor, rows: int, n_words: int) -> Int64[np.ndarray, " rows"]:
    """Return the word of each row: word j has the rows ``offsets[j]`` to ``offsets[j + 1]``."""
    offsets = _integers(tensor)
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
