"""Array descriptions and the codec."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probekit.errors import OptionError
from probekit.store.codec import TORCH_DTYPES, Piece, encode_chunk, fits
from probekit.store.layout import FEATURE_DTYPES, ArraySpec, chunk_rows_for


def spec(**changes):
    fields = {"name": "words", "rows": 64, "layers": (0, 2), "dim": 8, "dtype": "float16"}
    return ArraySpec(**{**fields, "chunk_rows": 32, **changes})


@given(
    dim=st.integers(1, 10_000), dtype=st.sampled_from(FEATURE_DTYPES), rows=st.integers(1, 10**7)
)
def test_chunk_rows(dim, dtype, rows):
    found = chunk_rows_for(dim, dtype, rows)
    width = {"float16": 2, "bfloat16": 2, "float32": 4, "int8": 1}[dtype]
    assert found >= 16 and found & (found - 1) == 0
    assert found == 16 or found < 2 * rows
    assert found == 16 or found * dim * width <= 4 * 2**20 * 1.5
    if found < rows and found > 16:
        assert found * dim * width >= 4 * 2**20 / 1.5


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 33}, {"rows": 0}, {"dim": 0}, {"layers": ()}, {"layers": (2, 1)},
        {"layers": (1, 1)}, {"layers": (-1, 1)},
        {"rows": 2**30, "chunk_rows": 2**30, "layers": (0,)},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_specs(changes):
    with pytest.raises(OptionError):
        spec(**changes)


@pytest.mark.parametrize(
    ("dtype", "nbytes"), [("float16", 2048), ("float32", 4096), ("int8", 1664)]
)
def test_size_on_disk(dtype, nbytes):
    """64 x 2 x 8 values; int8 adds 64 x 2 norms and 2 x 2 x 8 scales of four bytes."""
    assert spec(dtype=dtype).nbytes == nbytes


@pytest.mark.parametrize(
    ("dtype", "largest"), [("float16", 65504.0), ("bfloat16", 3.38e38), ("float32", 3.4e38)]
)
def test_fits(dtype, largest):
    assert fits(dtype, largest)
    assert not fits(dtype, float("inf")) and not fits(dtype, float("nan"))
    assert fits(dtype, 65505.0) == (dtype != "float16")


def piece(array, rows):
    return Piece(spec=array, row_chunk=0, layer_index=0, rows=rows)


def decoded(array, stored):
    """Return a chunk's rows by the formula of ``cache/README.md``."""
    values = torch.from_numpy(stored["words"]).reshape(array.chunk_rows, array.dim)
    if array.dtype != "int8":
        return values.view(TORCH_DTYPES[array.dtype])
    norm, scale = (torch.from_numpy(stored[f"words_{name}"]) for name in ("norm", "scale"))
    return norm.reshape(-1, 1) * scale.reshape(1, -1) * values.float()


def test_int8_keeps_ordinary_rows_beside_massive_activations():
    """Rows like those of a decoder: a few channels 30,000 times the others in a few rows."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(512, 256, generator=generator)
    rows[::100, 7] = 29_303
    rows[:, 11] *= 70
    rows[5] = 0
    rows[:, 9] = 0
    array = spec(rows=512, layers=(0,), dim=256, dtype="int8", chunk_rows=512)
    back = decoded(array, encode_chunk(piece(array, rows)))
    kept = torch.arange(512) != 5
    errors = ((back - rows).norm(dim=1) / rows.norm(dim=1))[kept]
    assert errors.median() < 1e-2 and errors.max() < 5e-2
    assert not back[5].any() and not back[:, 9].any()


@pytest.mark.parametrize("dtype", FEATURE_DTYPES)
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_unused_tail_is_zero_whatever_comes_in(dtype, source):
    array = spec(dtype=dtype)
    stored = encode_chunk(piece(array, torch.ones(3, 8, dtype=source)))
    assert {name: values.shape for name, values in stored.items()} == {
        plain.name: plain.chunks for plain in array.plain()
    }
    assert not stored["words"][3:].any()
    back = decoded(array, stored)
    np.testing.assert_allclose(back[:3].float().numpy(), 1, rtol=1e-5)
    empty = encode_chunk(piece(array, torch.ones(0, 8, dtype=source)))
    assert not any(values.any() for values in empty.values())
