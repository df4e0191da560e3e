"""Compare cached rows with a fresh float32 pass, or with another entry of the same text."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone import Backbone, UnnormedBackbone, as_given, load_again, read_arrays
from probekit.backbone.placement import DeviceMap
from probekit.data.alignment import learn_specials
from probekit.data.encoded import EncodedSplit
from probekit.data.pooling import Pooling
from probekit.data.stored import encoded_of
from probekit.errors import EntryError, OptionError
from probekit.extraction.maintenance.sample import RowSample, read_sample, sample_rows
from probekit.store.entry import Entry
from probekit.store.manifest import Manifest
from probekit.store.tables import ExampleTable
from probekit.tasks import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# Median relative error of a row that is allowed per layer, by what made the row. The 99th
# percentile may be ten times as large: in bfloat16 single texts of correct entries come back with
# an error of 0.12 to 0.16 (0.0004 in float32), and three pooled rows of a text fail together.
_COMPUTE_TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2, "float16": 5e-3}
_STORE_TOLERANCE = {"float32": 0.0, "float16": 0.0, "bfloat16": 4e-3, "int8": 1e-2}
TAIL = 10
_MODEL = ("name", "revision", "identity")
_SAME = ("model", "text", "max_length", "overlong", "pooling", "layers", "masking")


@dataclass(frozen=True, kw_only=True)
class RowErrors:
    """Relative errors |a - b| / |b| of some rows, layer by layer.

    Attributes:
        entry: the entry whose rows are a.
        reference: what b is.
        rows: how many rows were compared.
        layers: layer numbers.
        median: median error of each layer.
        p99: 99th percentile of each layer.
        tolerance: largest median allowed; ``TAIL`` times that for the 99th percentile.
    """

    entry: str
    reference: str
    rows: int
    layers: tuple[int, ...]
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
    model: "str | Path | PreTrainedModel | None" = None,
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
    sample = sample_rows(entry, count, seed)
    if _of_import(entry, "last_layer") == "raw":
        backbone = UnnormedBackbone.of(backbone)
    fresh = _fresh_rows(backbone, entry, sample)
    computed = entry.manifest.compute_dtype
    return _compare(entry, sample, fresh, "float32 pass, one sentence", computed)


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
            f"{entry.path}: nothing is known of the model {manifest.model} but its name, so its "
            "rows cannot be compared with a pass of it. Leave --rows out."
        )
    if manifest.request.get("pooling", "") is None:
        raise EntryError(
            f"{entry.path}: which subwords made the rows of words is not known, so they cannot be "
            "compared with a pass of the model. Leave --rows out, or import them with --pooling."
        )
    stripped = _of_import(entry, "special_tokens") == "stripped"
    if "mean" in entry.arrays and (stripped or _of_import(entry, "form") != "token-ids"):
        raise EntryError(
            f"{entry.path}: its means leave special tokens out, so they cannot be compared with a "
            "pass of the model. Leave --rows out."
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
    sample: RowSample,
    fresh: Float[Tensor, "rows layers dim"],
    reference: str,
    computed: str,
) -> RowErrors:
    """Return the errors of a sample's rows; ``computed`` is the dtype that may make them."""
    cached, fresh = read_sample(entry, sample).double(), fresh.double()
    size = torch.linalg.vector_norm(fresh, dim=-1).clamp(min=torch.finfo(torch.float64).tiny)
    errors = torch.linalg.vector_norm(cached - fresh, dim=-1) / size
    quantiles = torch.quantile(errors, torch.tensor([0.5, 0.99], dtype=torch.float64), dim=0)
    return RowErrors(
        entry=str(entry.path),
        reference=reference,
        rows=len(sample),
        layers=tuple(entry.arrays[sample.arrays[0]].layers),
        median=tuple(quantiles[0].tolist()),
        p99=tuple(quantiles[1].tolist()),
        tolerance=max(_COMPUTE_TOLERANCE[computed], _stored_tolerance(entry.manifest)),
    )


def _stored_tolerance(manifest: Manifest) -> float:
    """Return what storing may have changed: once, and before as often as rows were converted."""
    stored = [*manifest.request.get("through", ()), manifest.dtype]
    return sum(_STORE_TOLERANCE[dtype] for dtype in stored)


def _fresh_rows(
    backbone: Backbone, entry: Entry, sample: RowSample
) -> Float[Tensor, "rows layers dim"]:
    """Run the model on each example alone and return the sample's rows."""
    manifest = entry.manifest
    layers = {name: entry.arrays[name].layers for name in sample.arrays}
    fresh = torch.empty(len(sample), len(next(iter(layers.values()))), manifest.dim)
    for example, places in sample.by_example().items():
        rows = read_arrays(
            backbone,
            _encoded(backbone, entry, example),
            0,
            1,
            layers=layers,
            pooling=cast(Pooling, manifest.pooling),
            batch_tokens=1,  # every window is a batch of its own
            dtype=torch.float32,
        )
        for place in places:
            fresh[place] = rows[sample.array_of(place)][sample.within[place]]
    return fresh


def _encoded(backbone: Backbone, entry: Entry, example: int) -> EncodedSplit:
    """Return the windows of one example as the model had them: tokenised again, or as stored.

    What was masked is stored, and so are the ids of states that were imported.
    """
    examples, request = entry.examples, entry.manifest.request
    stripped = _of_import(entry, "special_tokens") == "stripped"
    if examples.has("targets") or _of_import(entry, "form") == "token-ids":
        stored = encoded_of(ExampleTable(examples.table.slice(example, 1)))
        return _with_specials(backbone, stored) if stripped else stored
    text, text_pair = examples.texts[example]
    again = Example(
        id=examples.ids[example], words=examples.words(example), text=text, text_pair=text_pair
    )
    return backbone.inspection.encode(
        [again], max_length=request["max_length"], overlong=request["overlong"]
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
