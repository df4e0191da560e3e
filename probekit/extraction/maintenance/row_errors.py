"""Compare cached rows with a fresh float32 pass, or with another entry of the same text."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.backbone import Backbone, as_given, load_again, read_arrays
from probekit.backbone.placement import DeviceMap
from probekit.base.kinds import ARRAYS
from probekit.base.layers import RESID_POST
from probekit.base.numbers import bounds_of, numpy_generator, ragged_arange
from probekit.base.registry import PathName
from probekit.data.batches import Batching, batches_by_length
from probekit.data.encoded import EncodedSplit, Pooling, encoded_of, window_lengths
from probekit.data.texts import learn_specials
from probekit.errors import EXTRACT_AGAIN, EntryError, OptionError
from probekit.store.entry import Entry
from probekit.store.tables import ExampleTable
from probekit.tasks import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class ArraySample(NamedTuple):
    """Rows of an array of an entry, or of any entry of the same text.

    Attributes:
        example: for each row, its example.
        within: for each row, its place among the rows that its example has in the array.
    """

    example: Int64[np.ndarray, " rows"]
    within: Int64[np.ndarray, " rows"]


def sample_rows(entry: Entry, count: int, seed: int) -> dict[str, ArraySample]:
    """Draw rows from all that mean something, each at most once; return them by array.

    Besides random ones these are all rows of the texts with the most and the least padding beside
    them, two of every unit: if padding changed any, then those.

    Args:
        entry: the entry.
        count: how many random rows; fewer if there are fewer.
        seed: of the draw.

    Raises:
        EntryError: the entry keeps nothing but subwords, there is no valid row, or the manifest
            does not say how rows were computed.
    """
    arrays = [name for name in entry.arrays if name not in entry.manifest.last_only]
    valid = {name: _valid_places(entry.examples, name) for name in arrays}
    bounds = bounds_of(np.array([len(rows.example) for rows in valid.values()], np.int64))
    total = int(bounds[-1])
    if not total:
        raise EntryError(f"{entry.path} holds no valid row to compare.")
    examples = np.concatenate([rows.example for rows in valid.values()])
    generator = numpy_generator(seed, "verify")
    random = generator.choice(total, size=min(count, total), replace=False)
    drawn = np.union1d(random, np.flatnonzero(np.isin(examples, _most_and_least_padded(entry))))
    sample = {}
    for (name, rows), (start, stop) in zip(valid.items(), pairwise(bounds), strict=True):
        places = drawn[(drawn >= start) & (drawn < stop)] - start
        sample[name] = ArraySample(rows.example[places], rows.within[places])
    return sample


def read_sample(
    entry: Entry, sample: Mapping[str, ArraySample]
) -> dict[str, Float[Tensor, "rows layers dim"]]:
    """Return the rows of a sample by array, in float32.

    Raises:
        EntryError: the entry does not hold an array of the sample.
    """
    parts = {}
    for name, rows in sample.items():
        numbers = entry.examples.starts(name)[rows.example] + rows.within
        parts[name] = entry.arrays[name].read(numbers).float()
    return parts


def _most_and_least_padded(entry: Entry) -> Int64[np.ndarray, " examples"]:
    """Return two examples of every unit, by the padding of their windows in its batches."""
    units, windows = _units(entry), window_lengths(entry.examples)
    said = entry.manifest.extra["batching"]
    batching = Batching(padded_to=said["padded_to"], alone=said["alone"])
    examples = []
    for start, stop, batch_tokens in units:
        lengths = windows.values[windows.bounds[start] : windows.bounds[stop]]
        padding = np.zeros_like(lengths)
        for batch in batches_by_length(lengths, batch_tokens, batching):
            padding[batch] = lengths[batch].max() - lengths[batch]
        owner = np.repeat(np.arange(start, stop), windows.lengths[start:stop])
        examples += [owner[padding.argmax()], owner[padding.argmin()]] if len(owner) else []
    return np.unique(np.array(examples, np.int64))


def _units(entry: Entry) -> list[tuple[int, int, int]]:
    """Return of every unit its first example, one past its last, and the tokens of a batch.

    Raises:
        EntryError: the manifest does not say it of every example.
    """
    entry.manifest.check_says("extra", ("batching", "computed", "units"))
    extra = entry.manifest.extra
    bounds = [*extra["units"], len(entry.examples)]
    tokens = {unit: way["batch_tokens"] for way in extra["computed"] for unit in way["units"]}
    if (
        bounds[0] != 0
        or bounds != sorted(bounds)
        or not tokens.keys() >= set(range(len(bounds) - 1))
    ):
        raise EntryError(
            f"{entry.path}: the entry does not say in which unit each example was computed, or "
            f"how. {EXTRACT_AGAIN}"
        )
    return [(start, stop, tokens[unit]) for unit, (start, stop) in enumerate(pairwise(bounds))]


def _valid_places(examples: ExampleTable, array: str) -> ArraySample:
    """Return every row that means something."""
    if ARRAYS[array].per == "text":
        read = np.flatnonzero(examples.n_tokens)
        return ArraySample(read, np.zeros_like(read))
    of_tokens = ARRAYS[array].per == "subword"
    counts = examples.n_token_rows if of_tokens else examples.n_rows.astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    within = ragged_arange(np.zeros_like(counts), counts)
    if of_tokens:
        return ArraySample(owner, within)
    return ArraySample(owner[examples.valid], within[examples.valid])


# Median relative error of a row that is allowed per layer, by what made the row. The 99th
# percentile may be ten times as large: in bfloat16 single texts of correct entries come back with
# an error of 0.12 to 0.16 (0.0004 in float32), and three pooled rows of a text fail together.
_COMPUTE_TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2, "float16": 5e-3}
_STORE_TOLERANCE = {"float32": 0.0, "float16": 0.0, "bfloat16": 4e-3, "int8": 1e-2}
TAIL = 10
_MODEL = ("name", "revision", "identity")
_SAME = (
    *("model", "text", "max_length", "overlong", "pooling", "layers", "tokens"),
    *("chat_template", "masking"),
)


@dataclass(frozen=True, kw_only=True)
class RowErrors:
    """Relative errors |a - b| / |b| of some rows, layer by layer.

    Attributes:
        entry: the entry whose rows are a.
        reference: what b is.
        rows: how many rows were compared.
        layers: layer numbers; of another point than the residual stream its name before, ``z.3``.
        median: median error of each layer.
        p99: 99th percentile of each layer.
        tolerance: largest median allowed; ``TAIL`` times that for the 99th percentile.
    """

    entry: str
    reference: str
    rows: int
    layers: tuple[int | str, ...]
    median: tuple[float, ...]
    p99: tuple[float, ...]
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether every layer is within tolerance."""
        # `all`, not `max`: a NaN must fail wherever it stands.
        return all(error <= self.tolerance for error in self.median) and all(
            error <= TAIL * self.tolerance for error in self.p99
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "entry": self.entry,
            "reference": self.reference,
            "rows": self.rows,
            "median": dict(zip(map(str, self.layers), self.median, strict=True)),
            "p99": dict(zip(map(str, self.layers), self.p99, strict=True)),
            "tolerance": self.tolerance,
            "passed": self.passed,
        }


def verify_rows(
    entry: Entry,
    count: int,
    *,
    model: "PathName | PreTrainedModel | None" = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    device: str = "auto",
    device_map: DeviceMap | None = None,
    seed: int = 0,
    trust_remote_code: bool = False,
) -> RowErrors:
    """Compare rows with a fresh float32 pass over one text at a time.

    Args:
        entry: the entry to check.
        count: how many random rows of the arrays that hold every chosen layer; fewer if there are
            fewer. Those of the most and the least padded text of every unit come on top.
        model: where the model lies now, or the model in memory; ``None`` is where it lay at
            extraction.
        tokenizer: of a model in memory.
        device: where the model runs; ``auto`` is CUDA where there is some, else the CPU.
        device_map: in its place, for a model that does not fit on one; see `probekit.extract`.
        seed: of the random rows.
        trust_remote_code: run code that lies with the model.

    Raises:
        BackboneError: it is another model than that of the entry.
        EntryError: the entry holds no such row, or does not say of which model it is.
    """
    entry.manifest.check_says("model_info", _MODEL)
    entry.manifest.check_says("request", ("max_length", "overlong"))
    if entry.manifest.imported is not None:
        _check_comparable(entry)
    backbone = load_again(
        {**entry.manifest.model_info, "apart": None},  # which was looked at
        model=as_given(model, tokenizer, entry.manifest.model_info["name"]),
        device=device,
        device_map=device_map,
        compute_dtype="float32",
        made=str(entry.path),
        trust_remote_code=trust_remote_code,
    )
    template = entry.manifest.request.get("chat_template")
    backbone.inspection.check_same_template(template, str(entry.path))
    sample = sample_rows(entry, count, seed)
    if _of_import(entry, "last_layer") == "raw":
        backbone = replace(backbone, unnormed=True)
    fresh = _fresh_rows(backbone, entry, sample)
    computed = entry.manifest.compute_dtype
    return _compare(entry, sample, fresh, "a float32 pass of one sentence at a time", computed)


def _of_import(entry: Entry, name: str) -> Any:
    """Return what is said of states that were imported; None of others."""
    return (entry.manifest.imported or {}).get(name)


def _check_comparable(entry: Entry) -> None:
    """Refuse imported states whose rows no pass of a model makes.

    Raises:
        EntryError: the model is known by its name alone, or it is not known how rows were made.
    """
    manifest = entry.manifest
    if manifest.model_info["source"] == "name":
        raise EntryError(
            f"{entry.path}: only the name of the model {manifest.model} is known, so its rows "
            "cannot be compared with a fresh pass. Leave --rows out."
        )
    if manifest.request.get("pooling", "") is None:
        raise EntryError(
            f"{entry.path}: it is not known which subwords made the rows of words, so they cannot "
            "be compared with a fresh pass. Leave --rows out, or import them with --pooling."
        )
    stripped = _of_import(entry, "special_tokens") == "stripped"
    if "mean" in entry.arrays and (stripped or _of_import(entry, "form") != "token-ids"):
        raise EntryError(
            f"{entry.path}: its means leave special tokens out, so they cannot be compared with a "
            "fresh pass. Leave --rows out."
        )


def verify_against(entry: Entry, other: Entry, count: int, *, seed: int = 0) -> RowErrors:
    """Compare random rows with the same rows in another entry of the same text.

    This isolates what storage costs: an int8 entry against an unquantised one.

    Raises:
        OptionError: the entries differ in what decides the rows, such as text, model or layers.
    """
    for field in _SAME:
        if entry.manifest.request.get(field) != other.manifest.request.get(field):
            raise OptionError(
                f"{entry.path} and {other.path} cannot be compared: they differ in {field!r}."
            )
    sample = sample_rows(entry, count, seed)
    return _compare(entry, sample, read_sample(other, sample), str(other.path), "float32")


def _compare(
    entry: Entry,
    sample: Mapping[str, ArraySample],
    fresh: Mapping[str, Float[Tensor, "rows layers dim"]],
    reference: str,
    computed: str,
) -> RowErrors:
    """Return the errors of a sample's rows; ``computed`` is the dtype that may make them."""
    errors: dict[int | str, list[Tensor]] = {}
    for name, cached in read_sample(entry, sample).items():
        wanted, point = fresh[name].double(), ARRAYS[name].point
        size = torch.linalg.vector_norm(wanted, dim=-1).clamp(min=torch.finfo(torch.float64).tiny)
        of_rows = torch.linalg.vector_norm(cached.double() - wanted, dim=-1) / size
        for layer, of_layer in zip(entry.arrays[name].layers, of_rows.T, strict=True):
            errors.setdefault(layer if point == RESID_POST else f"{point}.{layer}", []).append(
                of_layer
            )
    levels = torch.tensor([0.5, 0.99], dtype=torch.float64)
    quantiles = [torch.quantile(torch.cat(of), levels).tolist() for of in errors.values()]
    stored = [*entry.manifest.request.get("through", ()), entry.manifest.dtype]
    return RowErrors(
        entry=str(entry.path),
        reference=reference,
        rows=sum(len(rows.example) for rows in sample.values()),
        layers=tuple(errors),
        median=tuple(median for median, _ in quantiles),
        p99=tuple(p99 for _, p99 in quantiles),
        tolerance=max(_COMPUTE_TOLERANCE[computed], sum(_STORE_TOLERANCE[d] for d in stored)),
    )


def _fresh_rows(
    backbone: Backbone, entry: Entry, sample: Mapping[str, ArraySample]
) -> dict[str, Float[Tensor, "rows layers dim"]]:
    """Run the model on each example alone and return the sample's rows by array."""
    manifest = entry.manifest
    layers = {name: entry.arrays[name].layers for name in sample}
    fresh = {
        name: torch.empty(len(rows.example), len(layers[name]), entry.arrays[name].dim)
        for name, rows in sample.items()
    }
    examples = np.unique(np.concatenate([rows.example for rows in sample.values()]))
    for example in examples.tolist():
        computed = read_arrays(
            backbone,
            _encoded(backbone, entry, example),
            0,
            1,
            layers=layers,
            pooling=cast(Pooling, manifest.pooling),
            batch_tokens=1,  # every window is a batch of its own
            dtype=torch.float32,
        )
        for name, rows in sample.items():
            mine = np.flatnonzero(rows.example == example)
            fresh[name][mine] = computed[name][rows.within[mine]]
    return fresh


def _encoded(backbone: Backbone, entry: Entry, example: int) -> EncodedSplit:
    """Return the windows of one example as the model had them: tokenised again, or as stored.

    What was masked is stored, and so are the ids of states that were imported.
    """
    examples, request = entry.examples, entry.manifest.request
    stripped = _of_import(entry, "special_tokens") == "stripped"
    if examples.has("targets") or _of_import(entry, "form") == "token-ids":
        stored = encoded_of(examples.take(np.array([example])))
        return _with_specials(backbone, stored) if stripped else stored
    text, text_pair = examples.texts[example]
    again = Example(
        id=examples.ids[example], words=examples.words(example), text=text, text_pair=text_pair
    )
    return backbone.inspection.encode(
        [again],
        max_length=request["max_length"],
        overlong=request["overlong"],
        only=entry.manifest.only,
        conversations="chat_template" in request,
    )


def _with_specials(backbone: Backbone, sentence: EncodedSplit) -> EncodedSplit:
    """Return a sentence of one window with the special tokens that its model read around it."""
    specials = learn_specials(backbone.inspection.tokenizer)
    edges = len(specials.prefix), len(specials.suffix)
    ids = np.array([*specials.prefix, *sentence.subwords, *specials.suffix], np.int32)
    return replace(
        sentence,
        subwords=ids,
        word_map=np.pad(sentence.word_map, edges, constant_values=-1),
        window_lengths=np.array([len(ids)], np.int32),
    )
