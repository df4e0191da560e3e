"""Which files of a model folder are read: configuration, tokenizer and weights."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from probekit.base.fingerprint import parse_json
from probekit.errors import BackboneError
from probekit.store.json_types import read_object

SMALL_FILES = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|tekken)\.json"
    r"|(vocab|merges)\.txt|[^/]*\.(model|tiktoken)"
)
"""The files besides the weights that configuration and tokenizer are built from."""

VOCABULARY = re.compile(r"(tokenizer|vocab|tekken)\.json|vocab\.txt|[^/]*\.(model|tiktoken)")
"""Those that a tokenizer can be built from; without one, transformers 5 quietly builds a tokenizer
of five special tokens."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_ADAPTER = "adapter_config.json"
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_MERGED = ("DoRA", "VeRA", "AdaLoRA", "LoRA with layer_replication")
_NOT_READ = {
    "VERA": "VeRA",
    "ADALORA": "AdaLoRA",
    "XLORA": "X-LoRA",
    "POLY": "Poly",
    "CPT": "context-aware prompt tuning",
    "PROMPT_TUNING": "prompt tuning",
    "MULTITASK_PROMPT_TUNING": "multitask prompt tuning",
    "PREFIX_TUNING": "prefix tuning",
    "P_TUNING": "P-tuning",
    "ADAPTION_PROMPT": "LLaMA-Adapter",
}
"""What peft calls forms of adapters that transformers does not put into a model whole."""
_FIELDS = {
    "use_dora": "DoRA",
    "layer_replication": "LoRA with layer_replication",
    "megatron_config": "LoRA for Megatron",
    "alora_invocation_tokens": "activated LoRA",
}
"""Fields of its configuration that make another form of LoRA; peft imports what the last names."""

_RANDOM_START = "pissa_niter"
"""How LoRA begins that a random decomposition takes out of the weights, anew at each load."""


@dataclass(frozen=True, kw_only=True)
class WeightFile:
    """One weight file; ``sha256`` is known beforehand where the Hub lists it."""

    name: str
    path: Path
    sha256: str | None = None


def refuse_form(model: str, adapter: Path) -> None:
    """Refuse an adapter whose form transformers does not put into a model whole.

    Args:
        model: the model, for messages.
        adapter: the adapter's configuration.

    Raises:
        BackboneError: its form is such a one.
    """
    said = read_object(adapter) or {}
    forms = [form for field, form in _FIELDS.items() if said.get(field)]
    if str(said.get("init_lora_weights")).startswith(_RANDOM_START):
        forms.append("PiSSA with a randomised decomposition")
    form = next(iter(forms), _NOT_READ.get(str(said.get("peft_type"))))
    if form is not None:
        way = "Merge it (peft's merge_and_unload), or move" if form in _MERGED else "Move"
        raise BackboneError(
            f"model {model!r}: beside its weights lies an adapter of {form}, which is not read. "
            f"{way} {_ADAPTER} away to read the model without it."
        )


def index_files(names: Collection[str]) -> list[str]:
    """Return the index files of sharded weights that are among ``names``."""
    return [f"{stem}.index.json" for stem in _WEIGHTS if f"{stem}.index.json" in names]


def pick_files(
    model: str, folder: Path, names: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose the files that transformers would read: weights, and the PEFT adapter beside them.

    Args:
        model: the model, for messages.
        folder: where the index of sharded weights lies.
        names: the files that lie beside its configuration, on this disk or on the Hub.

    Returns:
        one file of weights (safetensors before bin), or the shards in the order of their names;
        then the adapter's configuration and weights, nothing without one.

    Raises:
        BackboneError: there are no weights, a shard is missing, or the adapter's weights are.
    """
    for stem in _WEIGHTS:
        if stem in names:
            weights: tuple[str, ...] = (stem,)
            break
        if f"{stem}.index.json" in names:
            weights = _shards(folder / f"{stem}.index.json", names)
            break
    else:
        raise BackboneError(
            f"{folder}: no weights. Expected model.safetensors or pytorch_model.bin (or their "
            ".index.json and shards)."
        )
    if _ADAPTER not in names:
        return weights, ()
    for adapter in _ADAPTER_WEIGHTS:
        if adapter in names:
            return weights, (_ADAPTER, adapter)
    raise BackboneError(
        f"model {model!r}: {_ADAPTER} lies beside its weights without {_ADAPTER_WEIGHTS[0]}. Add "
        "that file, or remove the adapter's configuration."
    )


def _shards(index: Path, names: Collection[str]) -> tuple[str, ...]:
    try:
        shards = sorted(set(parse_json(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackboneError(f"{index}: cannot read the list of shards ({error}).") from error
    missing = [shard for shard in shards if shard not in names]
    if missing:
        raise BackboneError(
            f"{index.parent}: {len(missing)} of {len(shards)} weight shards are missing, first "
            f"{missing[0]}. Download the model again."
        )
    return tuple(shards)
