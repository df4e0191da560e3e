"""The layout of a cache root, of an entry's folder, and of the arrays in it."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np

from probekit.base.fingerprint import digest
from probekit.base.kinds import ARRAYS
from probekit.base.layers import POINTS, RESID_POST
from probekit.base.registry import choose
from probekit.errors import EntryError, OptionError
from probekit.store.files import plain_path
from probekit.store.json_types import is_name, list_of, mistyped, read_object, text, types_of, whole

MANIFEST = "manifest.json"
EXAMPLES = "examples.parquet"
CHECKSUMS = "checksums.parquet"
BACKBONE = "backbone"

PARTIAL = ".partial"  # suffix of an entry under construction
REPLACED = ".replaced"  # suffix of an old entry while its replacement is renamed
LOCK = ".lock"  # suffix of the file that the entry's writer locks
OWNER = ".lock.json"  # suffix of the one that names this writer
BUILDING = "building"  # in an entry under construction: plan and unit marks
PLAN = f"{BUILDING}/plan.json"
UNITS = f"{BUILDING}/units"  # the marks, a file per finished unit
SHARDS = f"{BUILDING}/shards"  # the locks of those that build the entry together
LAID = f"{BUILDING}/laid.json"  # sums of what the store's files hold besides chunks
DRAFT = f"{BUILDING}/draft"  # what the entry is to hold besides rows, for whoever seals it

LABELS = "labels"  # beside the entries of a task

_KEY_DIGITS = 8
_COMMON_FIELDS = {"request", "arrays", "backend"}
"""What manifests and plans have in common, in every version."""

_ENTRY_NAME = re.compile(rf"(?P<split>.+)-(?P<key8>[0-9a-f]{{{_KEY_DIGITS}}})")


def model_slug(model: str) -> str:
    """Return the folder name of a model.

    A path gives its last part (without ``.gguf``), a Hub id ``org/name`` gives ``org--name``.

    Raises:
        OptionError: nothing is left that can name a folder.
    """
    slashes = model.rstrip("/").count("/")
    is_path = model.endswith(".gguf") or slashes > 1 or model.startswith(("/", ".", "~"))
    if is_path or Path(model).exists():
        # Not `resolve`: a link is named as its user named it.
        name = Path(os.path.abspath(Path(model).expanduser())).name.removesuffix(".gguf")
    else:
        name = model.replace("/", "--")
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    if not slug:
        raise OptionError(f"cannot make a folder name from the model {model!r}.")
    return slug


def entry_folder(root: Path, model: str, task: str, split: str, key: str) -> Path:
    """Return where an entry lies.

    Args:
        root: the cache root.
        model: the model's slug (`model_slug`).
        task: the task's slug.
        split: the split's name.
        key: the entry's key, 64 hex digits.
    """
    return root / model / task / entry_name(split, key)


def entry_name(split: str, key: str) -> str:
    """Return the name of an entry's folder."""
    return f"{split}-{key[:_KEY_DIGITS]}"


def split_and_key(name: str) -> tuple[str, str] | None:
    """Return split and first digits of the key from an entry's folder name, finished or not."""
    match = _ENTRY_NAME.fullmatch(name.removesuffix(PARTIAL))
    return None if match is None else (match["split"], match["key8"])


def labels_folder(entry: Path) -> Path:
    """Return the folder of the labels that belong to an entry's task."""
    return entry.parent / LABELS


def beside(entry: Path, suffix: str) -> Path:
    """Return what lies beside an entry's folder, under its name and a suffix."""
    # ``.`` and ``..`` have no name of their own
    named = plain_path(entry) if entry.name in ("", "..") else entry
    return named.with_name(named.name + suffix)


def shards_folder(entry: Path) -> Path:
    """Return where shards that build an entry together hold their locks.

    Args:
        entry: its final folder.
    """
    return beside(entry, PARTIAL) / SHARDS


def remains(entry: Path) -> bool:
    """Say whether anything is left of an entry: itself, what is begun, or what it replaces."""
    return any(beside(entry, suffix).exists() for suffix in ("", PARTIAL, REPLACED))


def standing(path: Path) -> Path:
    """Return where an entry is read: its folder, or the old one's between two renames."""
    replaced = beside(path, REPLACED)
    return replaced if not path.exists() and replaced.is_dir() else path


def asked_of(folder: Path) -> dict[str, Any]:
    """Return the request of an entry, whole or unfinished; empty where its name tells of none."""
    files = (file for file in (MANIFEST, PLAN) if proven_key(folder, file))
    return next((_asked_in(folder / file) for file in files), {})


def limit_of(folder: Path) -> int | None:
    """Return N where an entry, whole or unfinished, holds only its split's first N examples."""
    extra = (read_object(folder / MANIFEST) or {}).get("extra")
    said = extra if isinstance(extra, dict) else read_object(folder / PLAN) or {}
    limit = said.get("limit")
    return limit if isinstance(limit, int) else None


def _asked_in(file: Path) -> dict[str, Any]:
    request = (read_object(file) or {}).get("request")
    return request if isinstance(request, dict) else {}


def proven_key(folder: Path, file: str = MANIFEST) -> str:
    """Return the key of the entry that a folder is, as its manifest or plan proves.

    Args:
        folder: the entry's folder, finished, unfinished or about to be replaced.
        file: the manifest or the plan in it, which may be anybody's.

    Returns:
        64 hex digits; none where what was asked for does not give the key in the folder's name.
    """
    named = split_and_key(folder.name.removesuffix(REPLACED))
    if named is None or not (read_object(folder / file) or {}).keys() >= _COMMON_FIELDS:
        return ""
    try:
        key = digest(_asked_in(folder / file))
    except (ValueError, RecursionError):  # JSON that cannot be written again
        return ""
    return key if key.startswith(named[1]) else ""


FeatureDtype = Literal["float16", "bfloat16", "float32", "int8"]
FEATURE_DTYPES: tuple[str, ...] = get_args(FeatureDtype)

# What a backend stores: HDF5 and Zarr know no bfloat16, so its bits travel as uint16.
_PLAIN_DTYPES = {"float16": "float16", "bfloat16": "uint16", "float32": "float32", "int8": "int8"}

# What a store says beside its arrays, for programs that do not know what a manifest is.
_LAYERS = "Axis 1 is hidden_states[i] of the model for each i of layers; 0 is the embeddings."
_BLOCKS = "Axis 1 is of block i of the model for each i of layers, from 1 on: {}."
_COMMENTS = {
    "float16": "Hidden states.",
    "float32": "Hidden states.",
    "bfloat16": "Hidden states, bits of bfloat16: shift left by 16, read as float32.",
    "int8": "Hidden states are {name} * {name}_scale of the row's chunk * {name}_norm in float32.",
}

# Beyond what anybody stores, so that a stranger's numbers take neither memory nor overflow.
_MOST_CHUNKS = 2**20
_MOST_BYTES = 2**30  # of a chunk
_MOST_ROWS = 2**36
_WIDEST = 2**20
_CHUNK_BYTES = 4 * 2**20
_MIN_CHUNK_ROWS = 16


@dataclass(frozen=True, slots=True)
class PlainArray:
    """One array as a backend stores it: a NumPy dtype and a regular grid of whole chunks.

    Attributes:
        name: name at the root of the Zarr group or HDF5 file.
        shape: extent per axis; axis 0 rows (or row chunks), axis 1 layers, axis 2 (if any) dim.
        chunks: chunk extent per axis; divides ``shape``.
        dtype: NumPy name; stored little-endian.
        logical: the logical array that it stores, or a part of it.
        axes: what each axis counts.
        comment: how its values are read.
    """

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str
    logical: "ArraySpec"
    axes: tuple[str, ...]
    comment: str

    @property
    def grid(self) -> tuple[int, int]:
        """Number of chunks along rows and along layers (there is one along dim)."""
        return self.shape[0] // self.chunks[0], self.shape[1] // self.chunks[1]

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of one chunk; all are whole, so all have the same size."""
        return math.prod(self.chunks) * np.dtype(self.dtype).itemsize

    @property
    def attributes(self) -> dict[str, Any]:
        """What is said beside the array, for readers that know nothing of probekit."""
        point = ARRAYS[self.logical.name].point if self.logical.name in ARRAYS else RESID_POST
        axis = _LAYERS if point == RESID_POST else _BLOCKS.format(POINTS[point])
        return {"layers": list(self.logical.layers), "comment": f"{self.comment} {axis}"}


def dimension_names(arrays: Sequence[PlainArray]) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes of all arrays of a store, by the arrays' names.

    Axes of one name have one length, as xarray and netCDF want it: where a logical array has
    another one than those before it, its name goes in front (``tokens_rows``).
    """
    lengths: dict[str, int] = {}

    def name(array: PlainArray, axis: str, length: int) -> str:
        alike = lengths.setdefault(axis, length) == length
        return axis if alike else f"{array.logical.name}_{axis}"

    return {
        array.name: tuple(name(array, *pair) for pair in zip(array.axes, array.shape, strict=True))
        for array in arrays
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class ArraySpec:
    """One logical array: ``rows`` slots x chosen layers x ``dim``.

    Attributes:
        name: ``words``, ``tokens``, ``cls``, ...
        rows: row slots, the unused tails of units included; a multiple of ``chunk_rows``.
        layers: the layer number (0 = embeddings) at each position of axis 1, ascending.
        dim: D, the width.
        dtype: how rows are stored.
        chunk_rows: rows of one chunk.
    """

    name: Annotated[str, is_name]
    rows: Annotated[int, whole(1, _MOST_ROWS)]
    layers: Annotated[tuple[int, ...], list_of(whole(0, _WIDEST))]
    dim: Annotated[int, whole(1, _WIDEST)]
    dtype: Annotated[FeatureDtype, text]
    chunk_rows: Annotated[int, whole(1, _MOST_ROWS)]

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            OptionError: a field has a value that no entry can have.
        """
        if wrong := mistyped(asdict(self), types_of(ArraySpec)):
            raise OptionError(
                f"array {self.name!r:.80}: {wrong[0]} cannot be {getattr(self, wrong[0])!r:.80}."
            )
        choose("stored dtype", self.dtype, dict.fromkeys(FEATURE_DTYPES))
        many = self.n_row_chunks * len(self.layers) > _MOST_CHUNKS
        if self.rows % self.chunk_rows or many or self.chunk_rows * self.row_nbytes > _MOST_BYTES:
            raise OptionError(
                f"array {self.name!r}: {self.rows} rows of {len(self.layers)} layers do not fit "
                f"chunks of {self.chunk_rows} rows: the rows must be a multiple of a chunk's, "
                f"with at most {_MOST_CHUNKS:,} chunks of at most {_MOST_BYTES:,} bytes each."
            )
        if not self.layers or list(self.layers) != sorted(set(self.layers)):
            raise OptionError(
                f"array {self.name!r}: layers must be ascending and distinct, "
                f"found {list(self.layers)!r:.80}."
            )

    @property
    def n_row_chunks(self) -> int:
        """Number of chunks along the rows."""
        return self.rows // self.chunk_rows

    @property
    def n_chunks(self) -> int:
        """Number of stored chunks, side arrays included."""
        return sum(math.prod(p.grid) for p in self.plain())

    @property
    def nbytes(self) -> int:
        """Bytes on disk, side arrays included."""
        return sum(math.prod(p.grid) * p.chunk_nbytes for p in self.plain())

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of one layer as it is stored; an int8 row has a norm beside it."""
        norm = 4 if self.dtype == "int8" else 0
        return self.dim * np.dtype(_PLAIN_DTYPES[self.dtype]).itemsize + norm

    def plain(self) -> tuple[PlainArray, ...]:
        """Return the arrays a backend stores for this one; all share one chunk grid.

        The values come first. ``int8`` has two more: ``<name>_norm`` (rows, layers), the float32
        norm of each row, and ``<name>_scale`` (row chunks, layers, dim), one float32 scale per
        chunk, layer and channel.
        """
        layers, c, name, dim = len(self.layers), self.chunk_rows, self.name, self.dim
        values = PlainArray(
            name, (self.rows, layers, dim), (c, 1, dim), _PLAIN_DTYPES[self.dtype],
            self, ("rows", "layers", "dim"), _COMMENTS[self.dtype].format(name=name),
        )  # fmt: skip
        if self.dtype != "int8":
            return (values,)
        norm = PlainArray(
            f"{name}_norm", (self.rows, layers), (c, 1), "float32",
            self, ("rows", "layers"), f"Euclidean norm of each row of {name}.",
        )  # fmt: skip
        scale = PlainArray(
            f"{name}_scale", (self.n_row_chunks, layers, dim), (1, 1, dim), "float32",
            self, ("chunks", "layers", "dim"), f"Scales of a chunk, {c} rows of {name}.",
        )  # fmt: skip
        return (values, norm, scale)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"layers": list(self.layers)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ArraySpec":
        """Build a spec from `to_json`'s form.

        Raises:
            EntryError: a field is missing, unknown or has an impossible value.
        """
        try:
            return cls(**{**fields, "layers": tuple(fields["layers"])})
        except (TypeError, KeyError, OptionError) as error:
            shown = f"{fields!r:.300}"
            raise EntryError(f"cannot read the array description {shown}: {error}") from None


def chunk_rows_for(dim: int, dtype: FeatureDtype, total_rows: int) -> int:
    """Return the rows of one chunk: a power of two near 4 MiB per chunk of one layer.

    Args:
        dim: D, the width.
        dtype: how rows are stored.
        total_rows: rows the array will hold; a small array gets no larger a chunk than it needs.
    """
    row_bytes = dim * np.dtype(_PLAIN_DTYPES[dtype]).itemsize
    wanted = 2 ** round(math.log2(max(_CHUNK_BYTES / row_bytes, 1)))
    needed = 2 ** math.ceil(math.log2(max(total_rows, 1)))
    return max(_MIN_CHUNK_ROWS, min(wanted, needed))
