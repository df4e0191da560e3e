"""Tensors in files of NumPy, safetensors and PyTorch, by name, read slice by slice.

Nothing is ever unpickled: arrays of Python objects are refused, and PyTorch reads weights alone.
"""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from probekit.errors import DataError, MissingFileError, reason_of

STATES = "hidden_states"
"""The tensor of states; a file that holds one tensor without a name holds this one."""

SUFFIXES = (".safetensors", ".npz", ".pt", ".pth", ".npy")

_SAFETENSORS = {
    **{"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8},
    **{"U8": torch.uint8, "BOOL": torch.bool},
}
_LOCAL_HEADER = 30
"""Bytes of a zip member's header before its name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredTensor:
    """A tensor in a file.

    Attributes:
        where: file and name, for messages.
        shape: its shape.
        dtype: its dtype; None for one that torch does not have.
        read: returns a part of it, in the machine's byte order.
    """

    where: str
    shape: tuple[int, ...]
    dtype: torch.dtype | None
    read: Callable[[tuple[slice, ...]], Tensor]

    def whole(self) -> Tensor:
        """Return all of it."""
        return self.read(tuple(slice(None) for _ in self.shape))


def open_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file, or of a folder with a ``.npy`` file for each, by name.

    Raises:
        MissingFileError: there is no such file.
        DataError: it is of another format, damaged, empty, or holds Python objects.
    """
    if not path.exists():
        raise MissingFileError(f"{path}: no such file or folder. Check the path.")
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        return {file.stem: of_numpy(_mapped(file), f"{file}") for file in files}
    readers: Mapping[str, Callable[[Path], dict[str, StoredTensor]]] = {
        ".safetensors": _open_safetensors,
        ".npz": _open_npz,
        ".npy": lambda file: {STATES: of_numpy(_mapped(file), f"{file}")},
        ".pt": _open_torch,
        ".pth": _open_torch,
    }
    if path.suffix not in readers:
        raise DataError(f"{path}: expected a file of tensors: {', '.join(readers)}.")
    try:
        return readers[path.suffix](path)
    except DataError:
        raise
    except Exception as error:  # every library raises its own kinds for damage
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read ({reason_of(error)}). It is damaged, incomplete, or holds Python "
        "objects, which are never loaded; write it again as plain tensors."
    )


def _open_safetensors(path: Path) -> dict[str, StoredTensor]:
    def tensor(name: str, found: Any) -> StoredTensor:
        # opened for every reading: there may be more such files than a process can hold open
        def read(places: tuple[slice, ...]) -> Tensor:
            with safe_open(path, "pt") as file:
                part: Tensor = file.get_slice(name)[places]
                return part

        return StoredTensor(
            where=f"{path}: {name}",
            shape=tuple(found.get_shape()),
            dtype=_SAFETENSORS.get(found.get_dtype()),
            read=read,
        )

    with safe_open(path, "pt") as file:
        return {name: tensor(name, file.get_slice(name)) for name in file.keys()}  # noqa: SIM118


def _open_torch(path: Path) -> dict[str, StoredTensor]:
    found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    named = {STATES: found} if isinstance(found, Tensor) else found
    if not isinstance(named, dict) or not all(isinstance(one, Tensor) for one in named.values()):
        raise DataError(f"{path}: expected tensors by name, found {type(found).__name__}.")
    return {str(name): of_tensor(one, f"{path}: {name}") for name, one in named.items()}


def of_tensor(tensor: Tensor, where: str) -> StoredTensor:
    """Return a tensor in memory as if it lay in a file.

    Raises:
        DataError: it is sparse or quantized.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise DataError(f"{where}: expected a plain tensor, found a sparse or quantized one.")
    tensor = tensor.detach()
    return StoredTensor(
        where=where,
        shape=tuple(tensor.shape),
        dtype=tensor.dtype,
        read=lambda places: tensor[places].cpu(),
    )


def _mapped(file: Path) -> np.ndarray[Any, Any]:
    try:
        found: np.ndarray[Any, Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(file, error) from error
    return found


def _open_npz(path: Path) -> dict[str, StoredTensor]:
    with zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
    found = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if member.compress_type == zipfile.ZIP_STORED:
            values = _map_member(path, member)
        else:  # a compressed one has no bytes that could be mapped
            with np.load(path, allow_pickle=False) as archive_of_numpy:
                values = archive_of_numpy[name]
        found[name] = of_numpy(values, f"{path}: {name}")
    return found


def check_archive(path: Path) -> None:
    """Compare what an archive holds with its checksums, which nothing does where it is mapped.

    Raises:
        DataError: it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path, error) from error
    if damaged is not None:
        raise DataError(f"{path}: {damaged} does not match its checksum. Write it again.")


def _map_member(path: Path, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Map an array that an archive holds uncompressed.

    Raises:
        ValueError: it is of Python objects, or the file ends before it does.
    """
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER)
        lengths = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        file.seek(sum(lengths), 1)
        version = np.lib.format.read_magic(file)
        first = version == (1, 0)
        read_header: Any = np.lib.format.read_array_header_1_0
        if not first:
            read_header = np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError("an array of Python objects")
        order: Any = "F" if fortran else "C"
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, "r", file.tell(), shape, order)


def of_numpy(array: Any, where: str) -> StoredTensor:
    """Return an array, in memory or mapped, as if it lay in a file.

    Raises:
        DataError: it is of Python objects.
    """
    values = np.asarray(array)
    if values.dtype.hasobject:
        raise DataError(
            f"{where}: an array of Python objects, which is never loaded. Sequences of different "
            "lengths lie one after the other in one array, with `lengths`."
        )

    def read(places: tuple[slice, ...]) -> Tensor:
        part = np.ascontiguousarray(values[places])
        # a copy: what is mapped cannot be written, and torch knows one byte order alone
        return torch.from_numpy(part.astype(part.dtype.newbyteorder("="), copy=True))

    return StoredTensor(
        where=where, shape=values.shape, dtype=_torch_dtype(values.dtype), read=read
    )


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype | None:
    try:
        return torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    except TypeError:
        return None
