"""The manifest: what an entry is, as strict JSON, written last."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from probekit.base.fingerprint import digest
from probekit.base.kinds import LAST_ONLY, keep_and_points
from probekit.errors import (
    EXTRACT_AGAIN,
    EntryError,
    EntryNotFoundError,
    EntryVersionError,
    OptionError,
    reason_of,
    upgrade_to,
)
from probekit.store import json_types as types
from probekit.store import layout
from probekit.store.backends import BACKENDS
from probekit.store.layout import FEATURE_DTYPES, ArraySpec

T = TypeVar("T")

FORMAT_VERSION = 2
"""Version 1 knew a model by its weights and the tokenizer of words alone."""

_OLDER = (
    "extract it again, with the command that made it, and remove this one: probekit cache rm PATH"
)
_CALLS = {
    "extract": " (or `probekit.extract` with the same model and examples)",
    "cache import": " (or `probekit.import_states` with the same arrays)",
}
"""By the command that begins an entry, the call of the library that does the same."""

LARGEST = 2**24
"""Bytes of a file beyond which it is none."""

_COUNT = types.whole(0, 2**53)
_COUNTS = types.list_of(_COUNT)
_REQUEST = {
    "keep": types.list_of(types.is_name),
    "layers": _COUNTS,
    "model": types.fields_of({}),
    "text": types.text,
    "masking": types.optional(
        types.fields_of({"rate": types.number, "passes": _COUNT, "every": _COUNT})
    ),
    "max_length": types.optional(_COUNT),
    "overlong": types.text,
    "tokens": types.text,
    "chat_template": types.text,
    "through": types.list_of(types.one_of(*FEATURE_DTYPES)),
    "imported": types.fields_of(
        {
            "producer": types.optional(types.text),
            "states": types.text,
            "layer_ids": _COUNTS,
            "form": types.one_of("token-ids", "word-ids", "words"),
            "special_tokens": types.one_of(None, "present", "absent", "stripped"),
            "last_layer": types.one_of(None, "raw"),
        },
        needed=("states", "form"),
    ),
}
_NEEDED = ("model", "text", "keep", "layers")
_MODEL = {
    "name": types.text,
    "source": types.text,
    "revision": types.optional(types.text),
    "vocab_size": _COUNT,
    "identity": types.fields_of({}),
}
_NUMBERS = types.table_of(types.list_of(types.number))
_COMPUTED = {
    "device": types.text,
    "compiled": types.boolean,
    "batch_tokens": types.whole(1, 2**53),
    "threads": types.whole(1, 2**53),
    "units": _COUNTS,
}
_BATCHING = {"padded_to": types.optional(_COUNT), "alone": types.boolean}
_READ = {
    **dict.fromkeys(("kind", "text", "separator", "encoding", "sentences"), types.text),
    **dict.fromkeys(("skip_unlabelled", "skip_blank"), types.boolean),
}
_EXTRA = {
    "read": types.fields_of(_READ),
    "limit": types.optional(_COUNT),
    "computed": types.list_of(types.fields_of(_COMPUTED, needed=("batch_tokens", "units"))),
    "batching": types.fields_of(_BATCHING, needed=_BATCHING),
    "units": _COUNTS,
}

_SUMS = {"nbytes": _COUNT, "xxh128": types.text}

_Text = Annotated[str, types.text]
_Name = Annotated[str, types.is_name]
_Count = Annotated[int, _COUNT]
_Flag = Annotated[bool, types.boolean]


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
            `check_says` requires where it is read; how the user's own files were read (``read``);
            ``reduced_from``, ``converted_from``; room for
            minor additions.
        files: bytes (``nbytes``) and checksum (``xxh128``) of every file but this one and those
            that hold chunks alone, by its path in the entry; of an HDF5 file the checksum is that
            of what is no chunk. Sealing fills it in.
        format_version: version of the on-disk format.
    """

    key: _Text
    request: Annotated[Mapping[str, Any], types.fields_of(_REQUEST)]
    model: _Name
    task: _Text
    split: _Name
    kind: _Name
    backend: Annotated[str, types.one_of(*BACKENDS)]
    dtype: Annotated[str, types.one_of(*FEATURE_DTYPES)]
    compute_dtype: Annotated[str, types.one_of("float32", "float16", "bfloat16")]
    pooling: Annotated[str, types.one_of("first", "last", "mean")]
    arrays: Annotated[tuple[ArraySpec, ...], types.list_of(types.fields_of({}))]
    n_blocks: _Count
    dim: _Count
    causal: _Flag
    final_norm: _Flag
    counts: Annotated[Mapping[str, int], types.table_of(_COUNT, needed=("examples",))]
    statistics: Annotated[
        Mapping[str, Any], types.fields_of({"max_abs": _NUMBERS, "non_finite": _NUMBERS})
    ]
    model_info: Annotated[Mapping[str, Any], types.fields_of(_MODEL)]
    origin: _Text
    versions: Annotated[Mapping[str, str], types.table_of(types.text)]
    created: Annotated[str, types.moment]
    extra: Annotated[Mapping[str, Any], types.fields_of(_EXTRA)] = field(default_factory=dict)
    files: Annotated[
        Mapping[str, Mapping[str, Any]], types.table_of(types.fields_of(_SUMS, needed=_SUMS))
    ] = field(default_factory=dict)
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
    def read(self) -> Mapping[str, Any] | None:
        """How the user's own files were read, by option; None of other text, or if unknown."""
        return self.extra.get("read")

    @property
    def imported(self) -> Mapping[str, Any] | None:
        """What tells states that another program computed; None where probekit did."""
        return self.request.get("imported")

    @property
    def attention_heads(self) -> int | None:
        """How many attention heads lie side by side in ``z``; None without, or if unequal."""
        return self.extra.get("attention_heads")

    @property
    def only(self) -> str | None:
        """The rule that says which tokens of a text have a row; None where all have."""
        rule = self.request.get("tokens", "all")
        return None if rule == "all" else rule

    @property
    def last_only(self) -> tuple[str, ...]:
        """The arrays that hold the last layer alone, whichever were asked for."""
        return () if "tokens" in self.request else LAST_ONLY

    @property
    def states_from(self) -> str:
        """What computed the states, in words."""
        if self.imported is None:
            return "computed by probekit"
        producer = self.imported.get("producer")
        return f"imported{f', computed by {producer}' if producer else ''}"

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
        keep, points = keep_and_points([*self.request["keep"], name])
        at = f" --points {points}" if points else ""
        return f"holds only {', '.join(held)}. Extract again with --keep {keep}{at}."

    def checksum_of(self, name: str) -> str:
        """Return the checksum of a file of the entry; none where the manifest tells of no such."""
        return self.files.get(name, {}).get("xxh128", "")

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
        values = asdict(self)
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
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise EntryError(f"{where} is not JSON ({reason_of(error)}). {EXTRACT_AGAIN}") from None
        if not isinstance(values, dict):
            raise EntryError(f"{where}: expected a JSON object, found {type(values).__name__}.")
        version = values.get("format_version")
        if version != FORMAT_VERSION:
            newer = type(version) is int and version > FORMAT_VERSION
            versions = values.get("versions")
            writer = versions.get("probekit") if isinstance(versions, dict) else None
            raise EntryVersionError(
                f"{where}: format version {_shown(version)}, this probekit reads version "
                f"{FORMAT_VERSION}; {upgrade_to(writer) if newer else _OLDER}."
            )
        if wrong := _wrong_fields(values):
            raise EntryError(f"{where}: {wrong}. {EXTRACT_AGAIN}")
        del values["seal"]
        try:
            arrays = tuple(ArraySpec.from_json(spec) for spec in values.pop("arrays"))
            return cls(arrays=arrays, **values)
        except (OptionError, EntryError) as error:
            raise EntryError(f"{where}: {error}") from None


def _wrong_fields(values: Mapping[str, Any]) -> str:
    """Return in words what is wrong with the fields of a manifest; nothing where all is well."""
    known = {spec.name for spec in fields(Manifest)} | {"seal"}
    if values.keys() != known:
        missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
        return f"missing fields {missing}, unknown fields {unknown!r:.200}"
    if wrong := types.mistyped(values, types.types_of(Manifest)):
        return f"{wrong[0]} cannot be {_shown(values[wrong[0]])}"
    if digest(values["request"]) != values["key"]:
        return f"the key {values['key']!r:.80} is not the digest of its request, 64 hex digits"
    lacking = [name for name in _NEEDED if name not in values["request"]]
    return f"its request does not say {', '.join(lacking)}" if lacking else ""


def _shown(value: Any) -> str:
    return f"{value!r:.80}" if types.plain(value) else "what it is"


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a complete entry, where the entry stands.

    Raises:
        EntryNotFoundError: there is no such folder.
        EntryError: the entry is unfinished, or its manifest is damaged or of another version.
    """
    return read_standing(path, manifest_in)


def manifest_in(path: Path) -> Manifest:
    """Read the manifest that lies in a folder; the errors are those of `read_manifest`."""
    file, partial = path / layout.MANIFEST, path.name.endswith(layout.PARTIAL)
    if partial or not file.is_file():
        begun = path if partial else layout.beside(path, layout.PARTIAL)
        if partial or begun.is_dir():
            by = "cache import" if "imported" in layout.asked_of(begun) else "extract"
            maker = (types.read_object(begun / layout.PLAN) or {}).get("made_by")
            by = maker if isinstance(maker, str) else by  # it may be anybody's
            raise EntryError(
                f"{path} is unfinished. Run the same `probekit {by:.20}` command"
                f"{_CALLS.get(by, '')} again: it resumes where it stopped."
            )
        if not path.is_dir():
            raise EntryNotFoundError(f"no cache entry at {path}. `probekit cache ls` lists them.")
        raise EntryError(
            f"{path} is not a complete entry: it has no {layout.MANIFEST}. {EXTRACT_AGAIN}"
        )
    try:
        if file.stat().st_size > LARGEST:
            raise EntryError(f"{file} is larger than any manifest is. {EXTRACT_AGAIN}")
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EntryError(f"{file} cannot be read ({reason_of(error)}). {EXTRACT_AGAIN}") from None
    return Manifest.from_json(text, str(file))


def read_standing(path: Path, read: Callable[[Path], T]) -> T:
    """Read an entry where it stands, and once more if another one took its place meanwhile.

    Args:
        path: the entry's final folder.
        read: receives the folder.

    Raises:
        EntryError: of ``read``, where the folder is still the same.
        EntryNotFoundError: likewise.
    """
    seen, failed = None, None
    while True:
        folder = layout.standing(path)
        try:
            status = folder.stat()
            here = folder, status.st_dev, status.st_ino
        except OSError:
            here = folder, 0, 0
        if failed is not None and here == seen:
            raise failed
        seen = here
        try:
            return read(folder)
        except (EntryError, EntryNotFoundError) as error:
            failed = error
