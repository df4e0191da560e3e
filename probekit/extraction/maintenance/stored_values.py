"""What storing did to the rows of an entry, and what storing them once more would do.

The key of an entry names its numbers. So one that is converted has the key of an extraction only
where its numbers are those that the extraction would have stored: rows that were rounded on their
way say through which dtypes they went, in ``request.through``.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch

from probekit.base.kinds import ARRAYS
from probekit.data.pooling import Pooling
from probekit.errors import OptionError, StateRangeError
from probekit.extraction.plan import row_dtypes
from probekit.store.arrays import ArraySpec, FeatureDtype
from probekit.store.codec import TORCH_DTYPES, fits
from probekit.store.manifest import Manifest

_ROUNDED_TWICE_IS_ONCE = ("float16", "bfloat16", "float32")
"""int8 is none of these: the scales of rows that were decoded are not those of the rows."""


def is_exact(manifest: Manifest) -> bool:
    """Say whether an entry holds its rows as the model computed them, without any rounding."""
    if manifest.request.get("through"):
        return False
    return all(_holds(spec, _computed(spec, manifest)[0]) for spec in manifest.arrays)


def through(manifest: Manifest, dtype: FeatureDtype) -> list[str]:
    """Return the dtypes that rows of an entry have gone through, once they are stored as another.

    None where the numbers are those that an extraction would store: where the entry holds what was
    computed, or what it holds was rounded to ``dtype`` alone.

    Args:
        manifest: of the entry.
        dtype: what its rows are to be stored as.
    """
    gone = list(manifest.request.get("through", ()))
    # float32 adds nothing: it holds what all others hold
    if dtype != manifest.dtype and manifest.dtype != "float32" and not is_exact(manifest):
        gone.append(manifest.dtype)
    if gone and gone[-1] == dtype and dtype in _ROUNDED_TWICE_IS_ONCE:
        gone.pop()
    return gone


def auto_is_float16(manifest: Manifest) -> bool | None:
    """Say whether ``--dtype auto`` would have chosen float16; None where rows must tell.

    Raises:
        OptionError: nothing tells any more.
    """
    if manifest.dtype == "float16" and not manifest.request.get("through"):
        return True
    if is_exact(manifest):
        return None
    raise OptionError(
        f"--dtype auto chooses by what the model computes, and entry {manifest.key[:8]} holds it "
        f"rounded to {manifest.dtype}. Say which: --dtype float16, bfloat16, float32 or int8."
    )


def as_gathered(
    largest: Mapping[str, Sequence[float]], arrays: Mapping[str, ArraySpec], manifest: Manifest
) -> dict[str, list[float]]:
    """Return the largest |x| of layers as an extraction in another dtype measures them.

    Rounding keeps the order of numbers, so the largest of rounded ones is the largest, rounded.

    Args:
        largest: of each layer, per array, as they are.
        arrays: what they are stored as.
        manifest: of the entry that they are in.
    """
    found = {}
    for name, values in largest.items():
        gathered = _computed(arrays[name], manifest)[1]
        found[name] = torch.tensor(values, dtype=torch.float64).to(gathered).tolist()
    return found


def check_range(
    largest: Mapping[str, Sequence[float]], arrays: Mapping[str, ArraySpec], manifest: Manifest
) -> None:
    """Refuse values that a stored dtype cannot hold, before anything is written.

    Args:
        largest: of each layer, per array, as they are.
        arrays: what they are to be stored as.
        manifest: of the entry that they are in.

    Raises:
        StateRangeError: a layer has such values.
    """
    for name, values in as_gathered(largest, arrays, manifest).items():
        spec = arrays[name]
        for layer, value, found in zip(spec.layers, values, largest[name], strict=True):
            if not fits(spec.dtype, value):
                end = "; float16 ends at 65,504" if spec.dtype == "float16" else ""
                raise StateRangeError(
                    f"layer {layer} of array {name!r} of entry {manifest.key[:8]} reaches |x| = "
                    f"{found:,.6g}, which {spec.dtype} does not hold{end}. Nothing was written: "
                    "convert with --dtype bfloat16 or float32."
                )


def _holds(spec: ArraySpec, exact: torch.dtype) -> bool:
    stored = TORCH_DTYPES[spec.dtype]
    return stored in (torch.float32, exact) and spec.dtype != "int8"


def _computed(spec: ArraySpec, manifest: Manifest) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype of an array's rows as the model has them, and that of gathering them."""
    if spec.name not in ARRAYS:
        return torch.float32, torch.float32
    pooling = cast(Pooling, manifest.pooling)
    return row_dtypes(spec, TORCH_DTYPES[manifest.compute_dtype], pooling)
