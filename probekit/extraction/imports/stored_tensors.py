"""Tensors in memory, or in a safetensors file, which are read when they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from safetensors import safe_open
from torch import Tensor

from probekit.errors import DataError, MissingFileError, reason_of

SUFFIX = ".safetensors"

_SAFETENSORS = {
    **{"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8},
    **{"U8": torch.uint8, "BOOL": torch.bool},
}
_WHOLE = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredTensor:
    """A tensor in memory or in a file.

    Attributes:
        where: file or item, and name, for messages.
        shape: its shape.
        dtype: its dtype; None for one that torch does not have.
        read: returns it in the machine's byte order.
    """

    where: str
    shape: tuple[int, ...]
    dtype: torch.dtype | None
    read: Callable[[], Tensor]

    def check_integers(self) -> None:
        """Refuse what is no list of whole numbers.

        Raises:
            DataError: it is none.
        """
        if len(self.shape) != 1 or self.dtype not in _WHOLE:
            raise DataError(
                f"{self.where}: expected a list of whole numbers, found "
                f"{self.dtype or 'a dtype that torch does not have'} of the shape {self.shape}."
            )

    def integers(self) -> Int64[np.ndarray, " numbers"]:
        """Read a list of whole numbers.

        Raises:
            DataError: it is none.
        """
        self.check_integers()
        return self.read().numpy().astype(np.int64)


def open_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a safetensors file by name.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is of another format or damaged.
    """
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder. Check the path.")
    if path.suffix != SUFFIX:
        raise DataError(
            f"{path}: expected a {SUFFIX} file, or a folder of them. Read other files yourself, "
            "and give arrays to probekit.import_states."
        )
    try:
        with safe_open(path, "pt") as file:
            names = [*file.keys()]
            return {name: _of_file(path, name, file.get_slice(name)) for name in names}
    except Exception as error:  # the library raises kinds of its own for damage
        raise DataError(
            f"{path} cannot be read ({reason_of(error)}). It is damaged or incomplete; write it "
            "again."
        ) from error


def _of_file(path: Path, name: str, found: Any) -> StoredTensor:
    # opened for every reading: there may be more such files than a process can hold open
    def read() -> Tensor:
        with safe_open(path, "pt") as file:
            tensor: Tensor = file.get_tensor(name)
            return tensor

    return StoredTensor(
        where=f"{path}: {name}",
        shape=tuple(found.get_shape()),
        dtype=_SAFETENSORS.get(found.get_dtype()),
        read=read,
    )


def in_memory(values: Any, where: str) -> StoredTensor:
    """Return an array of PyTorch or NumPy, in memory or mapped, as if it lay in a file.

    Raises:
        DataError: it is sparse or quantized, or of Python objects.
    """
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_quantized:
            raise DataError(f"{where}: expected a plain tensor, found a sparse or quantized one.")
        plain = values.detach()
        return StoredTensor(
            where=where, shape=tuple(plain.shape), dtype=plain.dtype, read=lambda: plain.cpu()
        )
    array = np.asarray(values)
    if array.dtype.hasobject:
        raise DataError(f"{where}: an array of Python objects; give one array for each example.")

    def read() -> Tensor:
        whole = np.ascontiguousarray(array)
        # a copy: what is mapped cannot be written, and torch knows one byte order alone
        return torch.from_numpy(whole.astype(whole.dtype.newbyteorder("="), copy=True))

    return StoredTensor(where=where, shape=array.shape, dtype=_torch_dtype(array.dtype), read=read)


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype | None:
    try:
        return torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    except TypeError:
        return None
