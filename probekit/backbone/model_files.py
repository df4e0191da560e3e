"""Which files of a model folder are read: configuration, tokenizer and weights."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from probekit.base.fingerprint import digest_file
from probekit.errors import BackboneError

SMALL_FILES = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|tekken)\.json"
    r"|(vocab|merges)\.txt|[^/]*\.(model|tiktoken)"
)
"""The files besides the weights that configuration and tokenizer are built from."""

_VOCABULARY = re.compile(r"(tokenizer|vocab|tekken)\.json|vocab\.txt|[^/]*\.(model|tiktoken)")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_ADAPTER = "adapter_config.json"
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


@dataclass(frozen=True, kw_only=True)
class WeightFile:
    """One weight file; ``sha256`` is known beforehand where the Hub lists it."""

    name: str
    path: Path
    sha256: str | None = None

    def digest(self) -> str:
        """Return the sha256 of the file (64 hex digits), reading it where nobody listed it."""
        return self.sha256 or digest_file(self.path)


def index_files(names: Collection[str]) -> list[str]:
    """Return the index files of sharded weights that are among ``names``."""
    return [f"{stem}.index.json" for stem in _WEIGHTS if f"{stem}.index.json" in names]


def has_vocabulary(folder: Path) -> bool:
    """Say whether a folder holds any file that a tokenizer can be built from.

    Without one, transformers 5 quietly builds a tokenizer of five special tokens.
    """
    return any(_VOCABULARY.fullmatch(path.name) for path in folder.iterdir())


def pick_adapter(model: str, names: Collection[str]) -> tuple[str, ...]:
    """Choose the files of the PEFT adapter that transformers would apply; none without one.

    Args:
        model: the model, for messages.
        names: the files that lie beside its configuration.

    Raises:
        BackboneError: the adapter's weights are missing.
    """
    if _ADAPTER not in names:
        return ()
    for weights in _ADAPTER_WEIGHTS:
        if weights in names:
            return (_ADAPTER, weights)
    raise BackboneError(
        f"model {model!r}: {_ADAPTER} lies beside its weights without {_ADAPTER_WEIGHTS[0]}. Add "
        "that file, or remove the adapter's configuration."
    )


def pick_weights(folder: Path, names: Collection[str]) -> tuple[str, ...]:
    """Choose the weight files that transformers would read: safetensors before bin.

    Args:
        folder: where the index of sharded weights lies.
        names: the files that exist, on this disk or on the Hub.

    Returns:
        one file, or the shards in the order of their names.

    Raises:
        BackboneError: there are none, or a shard is missing.
    """
    for stem in _WEIGHTS:
        if stem in names:
            return (stem,)
        if f"{stem}.index.json" in names:
            return _shards(folder / f"{stem}.index.json", names)
    raise BackboneError(
        f"{folder}: no weights. Expected model.safetensors or pytorch_model.bin (or their "
        ".index.json and shards)."
    )


def _shards(index: Path, names: Collection[str]) -> tuple[str, ...]:
    try:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackboneError(f"{index}: cannot read the list of shards ({error}).") from error
    missing = [shard for shard in shards if shard not in names]
    if missing:
        raise BackboneError(
            f"{index.parent}: {len(missing)} of {len(shards)} weight shards are missing, first "
            f"{missing[0]}. Download the model again."
        )
    return tuple(shards)
