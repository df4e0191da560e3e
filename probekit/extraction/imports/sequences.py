"""Sequences of hidden states: one for each example, read one at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.errors import DataError
from probekit.extraction.imports.stored_tensors import StoredTensor

Form = Literal["token-ids", "word-ids", "words"]
"""What says whose a row is: ids of tokens, the word of each row, or nothing: a row per word."""

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
                "has no bfloat16: save float32)."
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
