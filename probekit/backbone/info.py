"""What is known of a backbone before its weights are read."""

from dataclasses import asdict, dataclass
from typing import Any

from probekit.backbone.identity import Identity


@dataclass(frozen=True, kw_only=True)
class BackboneInfo:
    """The facts of a backbone that extraction and the manifest need.

    Attributes:
        name: the model as the user wrote it.
        source: "hub", "folder" or "gguf".
        revision: the commit of a Hub repository, else None.
        n_blocks: L; ``hidden_states`` has L + 1 layers.
        dim: D, the width of every layer.
        causal: True if a position sees only earlier ones (a decoder).
        final_norm: True if layer L is after a normalisation that is not part of block L.
        vocab_size: rows of the input embedding.
        identity: what decides its states.
    """

    name: str
    source: str
    revision: str | None
    n_blocks: int
    dim: int
    causal: bool
    final_norm: bool
    vocab_size: int
    identity: Identity

    @property
    def architecture(self) -> str:
        """Name of the transformers class, without a head ("BertModel")."""
        return self.identity.architecture

    @property
    def max_length(self) -> int:
        """The longest input in subwords, special tokens included."""
        return self.identity.max_length

    @property
    def random_init(self) -> int | None:
        """Seed of weights drawn at random in place of the model's own; None for those."""
        return self.identity.random_init

    def to_json(self) -> dict[str, Any]:
        """Return the facts as a JSON-like dict."""
        return asdict(self)
