"""The manifest: what an entry is, as strict JSON, written last."""

import json
from collections.abc import Collection, Mapping, Set
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from probekit.base.fingerprint import digest
from probekit.base.messages.reasons import reason_of
from probekit.errors import EXTRACT_AGAIN, EntryError, EntryVersionError, OptionError
from probekit.store.arrays import FEATURE_DTYPES, ArraySpec
from probekit.store.backends import BACKENDS
from probekit.store.entry_names import is_name
from probekit.store.json_types import (
    boolean,
    fields_of,
    list_of,
    mistyped,
    moment,
    number,
    one_of,
    optional,
    plain,
    table_of,
    text,
    whole,
)

FORMAT_VERSION = 2
"""Version 1 knew a model by its weights and the tokenizer of words alone."""

_COUNT = whole(0, 2**53)
_DTYPE = one_of("float32", "float16", "bfloat16")
_REQUEST = {
    "keep": list_of(is_name),
    "layers": list_of(_COUNT),
    "model": fields_of({}),
    "text": text,
    "masking": optional(fields_of({"rate": number, "passes": _COUNT, "every": _COUNT})),
    "max_length": optional(_COUNT),
    "overlong": text,
}
_NEEDED = ("model", "text", "keep", "layers")
_MODEL = {
    "name": text,
    "source": text,
    "revision": optional(text),
    "vocab_size": _COUNT,
    "identity": fields_of({}),
}
_NUMBERS = table_of(list_of(number))
_COMPUTED = {
    "device": text,
    "compiled": boolean,
    "batch_tokens": whole(1, 2**53),
    "units": list_of(_COUNT),
}
_BATCHING = {"padded_to": optional(_COUNT), "alone": boolean}
_EXTRA = {
    "limit": optional(_COUNT),
    "computed": list_of(fields_of(_COMPUTED, needed=("batch_tokens", "units"))),
    "batching": fields_of(_BATCHING, needed=_BATCHING),
    "units": list_of(_COUNT),
}
_TYPES = {
    "key": text,
    "request": fields_of(_REQUEST),
    "model": is_name,
    "task": text,
    "split": is_name,
    "kind": is_name,
    "backend": one_of(*BACKENDS),
    "dtype": one_of(*FEATURE_DTYPES),
    "compute_dtype": _DTYPE,
    "pooling": one_of("first", "last", "mean"),
    "arrays": list_of(fields_of({})),
    "n_blocks": _COUNT,
    "dim": _COUNT,
    "causal": boolean,
    "final_norm": boolean,
    "counts": lambda counts: table_of(_COUNT)(counts) and "examples" in counts,
    "statistics": fields_of({"max_abs": _NUMBERS, "non_finite": _NUMBERS}),
    "model_info": fields_of(_MODEL),
    "origin": text,
    "versions": table_of(text),
    "created": moment,
    "extra": fields_of(_EXTRA),
    "files": table_of(fields_of({"nbytes": _COUNT, "xxh128": text})),
}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything a reader must know of an entry; the fields are those of ``manifest.json``.

    Attributes:
        key: 64 hex digits, the digest of what was asked for.
        request: what was asked for; the key hashes it.
        model: model name, as in the folder's path.
        task: task name.
        split: split name.
        kind: task kind ("tagging").
        backend: name of the backend ("zarr").
        dtype: stored dtype, resolved.
        compute_dtype: dtype the backbone ran in, resolved.
        pooling: how a word's row was made ("first", "last", "mean").
        arrays: the logical arrays.
        n_blocks: L.
        dim: D.
        causal: whether the backbone reads left to right only.
        final_norm: whether layer L is after a final norm.
        counts: examples, words, valid_words, tokens, windows, truncated, ...
        statistics: ``max_abs`` and ``non_finite`` of the rows, rounded already or not, each
            {array: one number per layer}.
        model_info: source, revision, identity, ...
        origin: where the text came from.
        versions: library versions.
        created: UTC time, ISO 8601.
        extra: ``limit``; how rows were computed (``computed``, ``batching``, ``units``), which
            `check_says` requires where it is read; ``reduced_from``; room for minor additions.
        files: bytes (``nbytes``) and checksum (``xxh128``) of every file but this one and those
            that hold chunks alone, by its path in the entry; of an HDF5 file the checksum is that
            of what is no chunk. Sealing fills it in.
        format_version: version of the on-disk format.
    """

    key: str
    request: Mapping[str, Any]
    model: str
    task: str
    split: str
    kind: str
    backend: str
    dtype: str
    compute_dtype: str
    pooling: str
    arrays: tuple[ArraySpec, ...]
    n_blocks: int
    dim: int
    causal: bool
    final_norm: bool
    counts: Mapping[str, int]
    statistics: Mapping[str, Any]
    model_info: Mapping[str, Any]
    origin: str
    versions: Mapping[str, str]
    created: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        """Check what every reader relies on.

        Raises:
            OptionError: the key is not 64 hex digits, or two arrays share a name.
        """
        if len(self.key) != 64 or not set(self.key) <= set("0123456789abcdef"):
            raise OptionError(f"manifest: key must be 64 hex digits, found {self.key!r:.80}.")
        names = [array.name for array in self.arrays]
        if not names or len(set(names)) != len(names):
            raise OptionError(f"manifest: expected arrays with distinct names, found {names}.")

    @property
    def limit(self) -> int | None:
        """N where the entry holds only the first N examples of its split; None if it has all."""
        return self.extra.get("limit")

    @property
    def part(self) -> str:
        """What the entry holds of its split, in words."""
        return "the whole split" if self.limit is None else f"the first {self.limit:,} examples"

    def array(self, name: str) -> ArraySpec:
        """Return the spec of one array.

        Raises:
            EntryError: the entry holds no such array.
        """
        for spec in self.arrays:
            if spec.name == name:
                return spec
        raise EntryError(f"entry {self.key[:8]} has no array {name!r}; it {self.lacking(name)}")

    def lacking(self, name: str) -> str:
        """Return what the entry holds instead of an array, and how to get it, for messages."""
        held = [spec.name for spec in self.arrays]
        keep = ",".join([*self.request["keep"], name])
        return f"holds only {', '.join(held)}. Extract again with --keep {keep}."

    def check_says(
        self, part: Literal["request", "model_info", "extra"], names: Collection[str]
    ) -> None:
        """Check that a part of the manifest which may lack fields holds some.

        Raises:
            EntryError: one is not there.
        """
        if missing := [name for name in names if name not in getattr(self, part)]:
            raise EntryError(f"entry {self.key[:8]}: its {part} does not say {missing[0]!r}.")

    def to_json(self) -> str:
        """Return the manifest as strict JSON text, with the digest of its other fields (``seal``).

        The seal leaves out when it was made: the same entry made again has the same.

        Raises:
            ValueError: a number is NaN or infinite.
        """
        values = asdict(self) | {"arrays": [spec.to_json() for spec in self.arrays]}
        ordered = {"format_version": values.pop("format_version"), **values}
        timeless = {name: value for name, value in ordered.items() if name != "created"}
        sealed = {**ordered, "seal": digest(timeless)}
        return json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> "Manifest":
        """Read `to_json`'s form, which anybody may have written; the seal is for `verify` alone.

        Args:
            text: the file's text.
            where: the file, for messages.

        Raises:
            EntryError: another format version, fields missing, unknown or impossible, or a key
                that is not the digest of the request.
        """
        values = _parse(text, where)
        _check_version(values, where)
        _check_fields(values, {spec.name for spec in fields(cls)}, where)
        del values["seal"]
        try:
            arrays = tuple(ArraySpec.from_json(spec) for spec in values.pop("arrays"))
            return cls(arrays=arrays, **values)
        except (OptionError, EntryError) as error:
            raise EntryError(f"{where}: {error}") from None


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EntryError(f"{where} is not JSON ({reason_of(error)}). {EXTRACT_AGAIN}") from None
    if not isinstance(values, dict):
        raise EntryError(f"{where}: expected a JSON object, found {type(values).__name__}.")
    return values


_OLDER = (
    "extract it again, with the command that made it, and remove this one: probekit cache rm PATH"
)


def _check_fields(values: Mapping[str, Any], names: Set[str], where: str) -> None:
    known = names | {"seal"}
    if values.keys() != known:
        missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
        raise EntryError(
            f"{where}: missing fields {missing}, unknown fields {unknown!r:.200}. {EXTRACT_AGAIN}"
        )
    if wrong := mistyped(values, _TYPES):
        raise EntryError(
            f"{where}: {wrong[0]} cannot be {_shown(values[wrong[0]])}. {EXTRACT_AGAIN}"
        )
    if digest(values["request"]) != values["key"]:
        raise EntryError(
            f"{where}: the key {values['key']!r:.80} is not the digest of what was asked for, "
            f"64 hex digits. {EXTRACT_AGAIN}"
        )
    if lacking := [name for name in _NEEDED if name not in values["request"]]:
        raise EntryError(f"{where}: its request does not say {', '.join(lacking)}. {EXTRACT_AGAIN}")


def _shown(value: Any) -> str:
    return f"{value!r:.80}" if plain(value) else "what it is"


def _check_version(values: Mapping[str, Any], where: str) -> None:
    version = values.get("format_version")
    if version == FORMAT_VERSION:
        return
    newer = type(version) is int and version > FORMAT_VERSION
    remedy = "upgrade probekit" if newer else _OLDER
    raise EntryVersionError(
        f"{where}: format version {_shown(version)}, this probekit reads version {FORMAT_VERSION}; "
        f"{remedy}."
    )
