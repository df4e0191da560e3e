"""What is known of a backbone before its weights are read."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class BackboneInfo:
    """The facts of a backbone that the cache key and the manifest need.

    Attributes:
        name: the model as the user wrote it.
        source: "hub", "folder" or "gguf".
        revision: the commit of a Hub repository, else None.
        architecture: name of the transformers class, without a head ("BertModel").
        n_blocks: L; ``hidden_states`` has L + 1 layers.
        dim: D, the width of every layer.
        max_length: the longest input in subwords, special tokens included.
        causal: True if a position sees only earlier ones (a decoder).
        final_norm: True if layer L is after a normalisation that is not part of block L.
        vocab_size: rows of the input embedding.
        weights_sha256: identity of the weights (``identity.weights_digest``).
        tokenizer_sha256: identity of the tokenizer (``identity.tokenizer_digest``).
        random_init: seed of weights drawn at random in place of the model's own; None for those.
    """

    name: str
    source: str
    revision: str | None
    architecture: str
    n_blocks: int
    dim: int
    max_length: int
    causal: bool
    final_norm: bool
    vocab_size: int
    weights_sha256: str
    tokenizer_sha256: str
    random_init: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as a JSON-like dict; ``random_init`` only if it is one."""
        facts = asdict(self)
        if self.random_init is None:
            del facts["random_init"]
        return facts
