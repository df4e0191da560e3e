"""The manifest: what an entry is, as strict JSON, written last."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from probekit.errors import EntryError, OptionError
from probekit.store.arrays import ArraySpec

FORMAT_VERSION = 2
"""Version 1 knew a model by its weights and the tokenizer of words alone."""


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
        extra: whatever a later minor addition needs.
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
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        """Check what every reader relies on.

        Raises:
            OptionError: the key is not 64 hex digits, or two arrays share a name.
        """
        if not re.fullmatch(r"[0-9a-f]{64}", self.key):
            raise OptionError(f"manifest: key must be 64 hex digits, found {self.key!r}.")
        names = [array.name for array in self.arrays]
        if not names or len(set(names)) != len(names):
            raise OptionError(f"manifest: expected arrays with distinct names, found {names}.")

    @property
    def limit(self) -> int | None:
        """N where the entry holds only the first N examples of its split; None if it has all."""
        return self.extra.get("limit")

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
        keep = ",".join([*self.request.get("keep", held), name])
        return f"holds only {', '.join(held)}. Extract again with --keep {keep}."

    def to_json(self) -> str:
        """Return the manifest as strict JSON text.

        Raises:
            ValueError: a number is NaN or infinite.
        """
        values = asdict(self) | {"arrays": [spec.to_json() for spec in self.arrays]}
        ordered = {"format_version": values.pop("format_version"), **values}
        return json.dumps(ordered, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> "Manifest":
        """Read `to_json`'s form.

        Args:
            text: the file's text.
            where: the file, for messages.

        Raises:
            EntryError: another format version, or fields missing, unknown or impossible.
        """
        values = _parse(text, where)
        _check_version(values, where)
        known = {spec.name for spec in fields(cls)}
        if values.keys() != known:
            missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
            raise EntryError(
                f"{where}: missing fields {missing}, unknown fields {unknown}. The entry is "
                "damaged: extract it again with --overwrite."
            )
        try:
            arrays = tuple(ArraySpec.from_json(spec) for spec in values.pop("arrays"))
            return cls(arrays=arrays, **values)
        except (OptionError, EntryError, TypeError) as error:
            raise EntryError(f"{where}: {error}") from None


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise EntryError(
            f"{where} is not JSON ({error}). Extract the entry again with --overwrite."
        ) from None
    if not isinstance(values, dict):
        raise EntryError(f"{where}: expected a JSON object, found {type(values).__name__}.")
    return values


_OLDER = (
    "extract it again, with the command that made it, and remove this one: probekit cache rm PATH"
)


def _check_version(values: Mapping[str, Any], where: str) -> None:
    version = values.get("format_version")
    if version == FORMAT_VERSION:
        return
    newer = isinstance(version, int) and version > FORMAT_VERSION
    remedy = "upgrade probekit" if newer else _OLDER
    raise EntryError(
        f"{where}: format version {version}, this probekit reads version {FORMAT_VERSION}; "
        f"{remedy}."
    )
