"""How states that other programs computed are read and stored."""

from dataclasses import dataclass

from probekit.base.layers import parse_layers
from probekit.base.registry import Panel, choose, flag, option
from probekit.errors import OptionError
from probekit.extraction.request_options import ExtractOptions, typed_words

BATCH_TOKENS = 1024
"""Rows that are read together; more would take memory and save nothing."""

_CHOICES = {"special_tokens": ("present", "absent", "stripped"), "last_layer": ("normed", "raw")}
_LARGEST = 2**16
"""More blocks than any model has."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of one import. What decides the states' meaning is stated, never guessed.

    Attributes:
        layer_ids: the numbers of the states' layers, in their order, as HuggingFace counts
            ``hidden_states`` (0 is the embeddings).
        layers: those of them that are stored.
        layers_first: arrays are (layers, rows, dim), as transformers stacks them, in place of
            (rows, layers, dim).
        special_tokens: where the token ids have none: ``stripped`` if the model read them
            and their rows were left out, ``absent`` if it did not read them.
        last_layer: of layer L of a model with a final norm, in files as vLLM writes them:
            ``normed`` if it is after the norm, as in ``hidden_states``, or ``raw`` before it.
        n_blocks: L of a model that is known by its name alone; the states are then of words.
        producer: what computed the states, in words.
        format: storage backend, ``zarr`` or ``hdf5``.
        dtype: stored dtype; ``auto`` is float16, or bfloat16 where float16 would overflow.
        keep: arrays to store, as for extraction; None is what labels need and the states have.
        pooling: which subwords make a word's row; where rows are words, which ones made them.
        limit: import only the first N examples of each split.
        part: ``encoder``: of an encoder-decoder, the half whose states they are.
    """

    PANEL = Panel.STORED

    layer_ids: str | None = option(
        None,
        "Numbers of the states' layers, in their order, as in transformers' hidden_states (0 = "
        "embeddings): 0,8,16 or 0:25.",
        Panel.FIRST,
    )
    layers: str = option("all", "Which of them to store.")
    layers_first: bool = False
    special_tokens: str | None = option(
        None,
        "Where token ids have no special tokens: stripped (the model read them, and their rows "
        "were left out) or absent (it did not); recognised if unset.",
        Panel.FIRST,
    )
    last_layer: str | None = option(
        None,
        "Layer L of a model with a final norm: normed (after it, as in hidden_states) or raw "
        "(before it, as vLLM writes it).",
        Panel.FIRST,
    )
    n_blocks: int | None = None
    producer: str | None = option(
        None, "What computed the states, in words: 'vllm 0.18'.", Panel.FIRST
    )
    format: str = option("zarr", "zarr or hdf5.")
    dtype: str = option(
        "auto", "Stored dtype: auto (float16, guarded), float16, bfloat16, float32, int8."
    )
    keep: tuple[str, ...] | None = option(
        None,
        "Arrays: words, cls, mean, last, tokens; what labels need and the states have if unset.",
    )
    pooling: str = option(
        "auto",
        "Which subwords make a word's row: auto (first; last for causal models), first, last, "
        "mean; where rows are words, how they were made.",
    )
    limit: int | None = option(None, "Only the first N examples of each split.")
    part: str | None = option(
        None,
        "encoder: the states are those of the encoder of an encoder-decoder (T5, BART).",
        Panel.ENTRIES,
    )

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: a number is not positive.
            UnknownNameError: a value is none of the choices.
        """
        self.stored("0")
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) is not None:
                choose(flag(name), value, dict.fromkeys(choices))
        if self.n_blocks is not None and not 0 < self.n_blocks < _LARGEST:
            raise OptionError(f"n_blocks={self.n_blocks}: no model has that many blocks.")

    def stored(self, layers: str) -> ExtractOptions:
        """Return how rows are stored, as extraction takes it.

        Args:
            layers: those that are stored.
        """
        return ExtractOptions(
            format=self.format,
            dtype=self.dtype,
            layers=layers,
            keep=self.keep,
            pooling=self.pooling,
            limit=self.limit,
            part=self.part,
            batch_tokens=BATCH_TOKENS,
        )

    def numbers(self, n_blocks: int) -> tuple[int, ...] | None:
        """Return the numbers of the states' layers, in their order; None where they are not given.

        Args:
            n_blocks: L.

        Raises:
            OptionError: one does not exist, or is named twice.
        """
        if self.layer_ids is None:
            return None
        layers = [n for item in self.layer_ids.split(",") for n in parse_layers(item, n_blocks)]
        if len(set(layers)) < len(layers):
            raise OptionError(f"--layer-ids {self.layer_ids} names a layer twice.")
        return tuple(layers)

    def words(self) -> list[str]:
        """Return the command-line words of the options that are not their default."""
        return typed_words(self)
