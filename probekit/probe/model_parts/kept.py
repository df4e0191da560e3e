"""What an entry keeps of its model: configuration, final norm, output head."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor

from probekit.base.fingerprint import parse_json
from probekit.probe.model_parts import final_norm, output_head
from probekit.probe.model_parts.final_norm import FinalNorm
from probekit.probe.model_parts.output_head import OutputHead

CONFIG = "config.json"
_heads: WeakValueDictionary[tuple[Path, int], OutputHead] = WeakValueDictionary()
"""Output heads in use: decoders side by side share one copy of the frozen numbers."""

PROVENANCE = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "dtype", "id2label", "label2id",
        "num_labels", "problem_type", "task_specific_params", "torch_dtype",
        "transformers_version",
    }
)  # fmt: skip
"""Where a model came from, how its weights are stored, and what its heads were for."""

OUTPUTS = frozenset(
    {
        "output_attentions", "output_hidden_states", "return_dict", "tie_word_embeddings",
        "use_cache",
    }
)  # fmt: skip
"""What a forward pass returns besides hidden states, and how an output head is stored."""


@dataclass(frozen=True)
class KeptBackbone:
    """The small files of a model.

    Attributes:
        folder: where they lie, ``backbone/`` in an entry.
    """

    folder: Path

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration; empty if it was not kept."""
        path = self.folder / CONFIG
        return dict(parse_json(path.read_text("utf-8"))) if path.is_file() else {}

    @property
    def final_norm(self) -> FinalNorm | None:
        """The norm after the last block; None if the model has no such norm.

        Raises:
            EntryError: the file is damaged.
        """
        return FinalNorm.from_file(self.folder / final_norm.FILE)

    @property
    def output_head(self) -> OutputHead:
        """The output head in float32; while someone holds it, everyone gets the same object.

        Raises:
            EntryError: the file is missing, damaged, or no output head.
        """
        path = self.folder / output_head.FILE
        key = path, path.stat().st_mtime_ns if path.exists() else 0
        head = _heads.get(key)
        if head is None:
            head = OutputHead.from_file(path)
            parts: dict[str, Any] = {
                name: value.float()
                for name, value in vars(head).items()
                if isinstance(value, Tensor)
            }
            head = _heads[key] = replace(head, **parts)
        return head

    @staticmethod
    def content(
        config: Mapping[str, Any], norm: FinalNorm | None, head: OutputHead | None
    ) -> dict[str, bytes]:
        """Return the files that hold these, by name; None is not kept."""
        files = {CONFIG: json.dumps(config, indent=1).encode()}
        if norm is not None:
            files[final_norm.FILE] = norm.to_file()
        if head is not None:
            files[output_head.FILE] = head.to_file()
        return files


def without(config: Mapping[str, Any], idle: Collection[str]) -> dict[str, Any]:
    """Return a configuration without idle entries, and without private ones."""
    return {
        name: value
        for name, value in config.items()
        if name not in idle and not name.startswith("_")
    }


def differing_entries(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the names of entries that both configurations have, with different values.

    What only one of them has may come from another version of transformers.
    """
    return sorted(name for name in first.keys() & second.keys() if first[name] != second[name])
