"""The codec: hidden states to stored chunks and back, one chunk of one layer at a time.

float16 and float32 are plain casts; bfloat16 is its bits in uint16; int8 divides each row by its
own float32 norm, then uses one scale per (chunk, layer, channel), so that an outlier row costs
the others nothing and a massive channel costs the other channels nothing.
"""

import numpy as np
import torch
from jaxtyping import Float, Float32, Int8
from torch import Tensor

from probekit.errors import StateRangeError
from probekit.store.arrays import ArraySpec, FeatureDtype

TORCH_DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "int8": torch.int8,
}

# int8 sums squares in float32: beyond this, the norm of a row of 10,000 channels overflows.
_INT8_LARGEST = 1e17


def fits(dtype: FeatureDtype, max_abs: float) -> bool:
    """Say whether values up to ``max_abs`` can be stored as ``dtype`` (NaN never fits)."""
    if dtype == "int8":
        return max_abs <= _INT8_LARGEST
    return max_abs <= torch.finfo(TORCH_DTYPES[dtype]).max


def read_dtype(dtype: FeatureDtype) -> torch.dtype:
    """Return the dtype in which rows stored as ``dtype`` are read (int8 is read as float32)."""
    return torch.float32 if dtype == "int8" else TORCH_DTYPES[dtype]


def encode_chunk(
    spec: ArraySpec, block: Float[Tensor, "rows dim"], *, layer: int, row_chunk: int
) -> dict[str, np.ndarray]:
    """Return the stored form of one chunk of one layer, by plain array name.

    Args:
        spec: the array.
        block: up to ``chunk_rows`` rows; the unused tail of the chunk becomes zeros.
        layer: the layer's number, for messages.
        row_chunk: the chunk's number along the rows, for messages.

    Raises:
        StateRangeError: a value is non-finite, or too large for the stored dtype.
    """
    stored: tuple[Tensor, ...]
    if spec.dtype == "int8":
        stored = _encode_int8(block)
    else:
        stored = (block.to(TORCH_DTYPES[spec.dtype]).contiguous(),)
    if len(block):
        _check_range(spec, block, stored, layer, row_chunk)
    tensors = [_padded(tensor, spec.chunk_rows) for tensor in stored[:2]] + list(stored[2:])
    arrays = (_to_numpy(tensor) for tensor in tensors)
    pairs = zip(spec.plain(), arrays, strict=True)
    return {plain.name: array.reshape(plain.chunks) for plain, array in pairs}


def decode_int8(
    values: Int8[Tensor, "rows dim"],
    norm: Float32[Tensor, " rows"],
    scale: Float32[Tensor, "*rows dim"],
    out: Float32[Tensor, "rows dim"],
) -> Float32[Tensor, "rows dim"]:
    """Write ``values * scale * norm`` into ``out`` and return it.

    ``scale`` is one row for all of them, or one per row. A cast first and then products of one
    dtype: a product of int8 and float32 takes twice as long.
    """
    return out.copy_(values).mul_(scale).mul_(norm[:, None])


def _encode_int8(block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = block.to(torch.float32)
    norm = torch.linalg.vector_norm(rows, dim=1)
    unit = rows / torch.where(norm > 0, norm, 1.0)[:, None]
    scale = unit.abs().amax(dim=0) / 127 if len(rows) else rows.new_zeros(rows.shape[1])
    levels = (unit / torch.where(scale > 0, scale, 1.0)).round_().clamp_(-127, 127)
    return levels.to(torch.int8), norm, scale


def _check_range(
    spec: ArraySpec, block: Tensor, stored: tuple[Tensor, ...], layer: int, row_chunk: int
) -> None:
    # Of int8, the norms tell: a non-finite value makes its row's norm non-finite.
    low, high = torch.aminmax(stored[1] if spec.dtype == "int8" else stored[0])
    if torch.isfinite(low) and torch.isfinite(high):
        return
    bad = int((~torch.isfinite(block)).sum())
    found = f"{bad} non-finite values" if bad else f"values up to {float(block.abs().max()):.6g}"
    remedy = (
        "the model computes them: try --compute-dtype float32"
        if bad
        else "rerun with --dtype bfloat16"
    )
    raise StateRangeError(
        f"array {spec.name!r}, layer {layer}, row chunk {row_chunk}: expected values that fit "
        f"{spec.dtype}, found {found}; {remedy}."
    )


def _padded(tensor: Tensor, rows: int) -> Tensor:
    if len(tensor) == rows:
        return tensor
    whole = tensor.new_zeros((rows, *tensor.shape[1:]))
    whole[: len(tensor)] = tensor
    return whole


def _to_numpy(tensor: Tensor) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()
