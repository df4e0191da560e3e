"""What an extraction, or an import of states, is asked for: options that check themselves."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from probekit.base.kinds import OUTPUT_HEAD, STREAM_ARRAYS
from probekit.base.layers import (
    ALIASES_OF_POINTS,
    POINTS,
    RESID_POST,
    parse_layers,
    parse_points,
    typed_layers,
)
from probekit.base.notices import info_once
from probekit.base.registry import Panel, choose, flag, listed, option
from probekit.errors import OptionError

logger = logging.getLogger(__name__)

KEEP = (*STREAM_ARRAYS, OUTPUT_HEAD)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": ("auto", "float16", "bfloat16", "float32", "int8"),
    "compute_dtype": ("auto", "float32", "bfloat16", "float16"),
    "pooling": ("auto", "first", "last", "mean"),
    "overlong": ("stride", "truncate", "error"),
    "tie": ("input",),
    "part": ("encoder",),
    "quantize": ("8bit", "4bit"),
}
"""What options may be, by name: as text, since what knows them loads torch; a test compares."""

_COUNTS = ("max_length", "limit", "batch_tokens", "passes", "every")
_SEEDS = ("random_init", "mask_seed")


@dataclass(frozen=True, kw_only=True)
class ExtractOptions:
    """Options of one extraction, all of them independent of the machine that runs it.

    Attributes:
        format: storage backend, ``zarr`` or ``hdf5``.
        dtype: stored dtype; ``auto`` is float16, or bfloat16 where float16 would overflow.
        compute_dtype: dtype of the forward pass; ``auto`` is bfloat16 where native, else float32.
        layers: layers to store, in the language of ``probekit.base.layers``.
        keep: arrays to store: ``words`` (every chosen layer, one row per word), ``cls``, ``mean``
            and ``last`` (every chosen layer, one row per text: its first token, the mean of all,
            its last token), ``predicted`` (every chosen layer, one row per predicted token of
            language modelling) and ``tokens`` (one row per subword of every window: of texts at the
            layers that are named, or with ``only`` at all; else at the last one); ``output-head``
            is the model's own. None is what the task's labels need (`choose_kept`).
        points: where in each block rows are taken, of ``POINTS``; names that TransformerLens and
            nnterp have for them are understood. None is the residual stream alone.
        only: of the ``tokens`` of texts, those that are kept: ``assistant``, ``user``, ``system``
            or ``tool`` (the contents of these messages of a conversation), ``last:N``,
            ``between:A:B`` (after each A, up to the next B) or ``regex:R`` (of which a part is
            matched by a regular expression of Python).
        pooling: which subwords make a word's row; ``auto`` is the first subword for
            bidirectional models and the last one for causal models.
        overlong: what happens to texts longer than the limit: ``stride`` reads overlapping
            windows, ``truncate`` cuts and counts, ``error`` refuses.
        max_length: limit in subwords, specials included; ``None`` is the model's own.
        limit: read only the first N examples of each split.
        batch_tokens: padded tokens per batch.
        random_init: seed; draw the weights at random instead of reading the model's own, as a
            baseline. The entry's model is then called ``<model>-random<seed>``.
        part: ``encoder``: of an encoder-decoder, the half that is read; it has no other that can
            be, and other models have no halves.
        quantize: ``8bit`` (LLM.int8) or ``4bit`` (NF4): quantize the linear layers, by
            bitsandbytes, as they are read. The entry's model is then called ``<model>-8bit``.
        passes: for masked language modelling: read each text this often, under other masks.
        mask_seed: for masked language modelling: of the masks.
        every: for next-token prediction: every k-th position predicts.
        tie: ``input``: for a model without an output head, its input embeddings.
    """

    PANEL = Panel.TEXTS

    format: str = option("zarr", "zarr or hdf5.", Panel.STORED)
    dtype: str = option(
        "auto",
        "Stored dtype: auto (float16, guarded), float16, bfloat16, float32, int8.",
        Panel.STORED,
    )
    compute_dtype: str = option("auto", "auto (bfloat16 where native), float32, bfloat16, float16.")
    layers: str = option("all", "Layers to store: all, -1, 0,4,8 or 0:25:4.", Panel.FIRST)
    keep: tuple[str, ...] | None = option(
        None,
        "Arrays: words (a row per word), cls, mean, last (a row per text), predicted (a row per "
        "predicted token), tokens (a row per subword: of texts at --layers, if given; else at "
        "the last layer, with --only at all), and output-head; what the task's labels need if "
        "unset.",
        Panel.STORED,
    )
    points: tuple[str, ...] | None = option(
        None,
        f"Which points of each block to store: {', '.join(POINTS)}. Every kept array is stored at "
        f"each of them. {RESID_POST} only if unset.",
        Panel.STORED,
    )
    only: str | None = option(
        None,
        "Of the tokens of texts, these alone: assistant, user, system or tool, of conversations; "
        "last:N; between:A:B, after each A up to B; regex:R, what a regular expression matches.",
        Panel.STORED,
    )
    pooling: str = option(
        "auto",
        "Which subwords make a word's row: auto (first; last for causal models), first, last, "
        "mean.",
        Panel.STORED,
    )
    overlong: str = option(
        "stride",
        "Texts longer than the limit: stride (overlapping windows), truncate, error. Pairs are "
        "cut.",
    )
    max_length: int | None = option(None, "Limit in subwords; the model's own if unset.")
    limit: int | None = option(None, "Only the first N examples of each split.", Panel.FIRST)
    batch_tokens: int = option(4096, "Padded tokens per batch.")
    random_init: int | None = option(
        None,
        "Draw the weights at random instead (a baseline); the model is then called "
        "MODEL-random<SEED>.",
        Panel.ENTRIES,
        metavar="SEED",
    )
    part: str | None = option(
        None, "encoder: of an encoder-decoder (T5, BART), the half that is read.", Panel.ENTRIES
    )
    quantize: str | None = option(
        None,
        "8bit or 4bit: quantize the linear layers as they are read; the model is then called "
        "MODEL-8bit or MODEL-4bit.",
    )
    passes: int | None = option(
        None,
        "Masked language modelling: read each text N times, under other masks.",
        Panel.MODELLING,
    )
    mask_seed: int | None = None
    every: int | None = option(
        None, "Next-token prediction: every k-th position predicts; 8 if unset.", Panel.MODELLING
    )
    tie: str | None = option(
        None, "input: a model without an output head lends its input embeddings.", Panel.MODELLING
    )

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: a number is not positive, or no array is named.
            UnknownNameError: a value is none of the choices.
        """
        from probekit.data.token_choice import TokenChoice
        from probekit.store.backends import BACKENDS

        choose("format", self.format, BACKENDS)
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) is not None:
                choose(flag(name), value, dict.fromkeys(choices))
        if self.keep is not None:
            keep = listed(self.keep)
            for name in keep:
                choose("--keep", name, dict.fromkeys(KEEP))
            if not set(keep) & set(STREAM_ARRAYS):
                named = ", ".join(STREAM_ARRAYS)
                raise OptionError(f"--keep names no array. Choose from: {named}.")
            # in the order of an entry's arrays: order and repetitions mean nothing
            object.__setattr__(self, "keep", tuple(name for name in KEEP if name in keep))
        if self.points is not None:
            asked = listed(self.points)
            for name in asked:
                if (known := ALIASES_OF_POINTS.get(name, name)) != name:
                    info_once(logger, "%s is called %s here.", name, known)
            points = parse_points(asked)
            object.__setattr__(self, "points", None if points == (RESID_POST,) else points)
        if self.only is not None:
            TokenChoice.parse(self.only)
            if self.keep is None or "tokens" not in self.keep:
                raise OptionError(f"--only {self.only} is of tokens: add --keep tokens.")
        object.__setattr__(self, "layers", typed_layers(self.layers))
        for name in _COUNTS:
            if (count := getattr(self, name)) is not None and count < 1:
                raise OptionError(f"{flag(name)} must be a positive number; found {count}.")
        for name in _SEEDS:
            if (seed := getattr(self, name)) is not None and seed < 0:
                raise OptionError(f"{flag(name)} {seed}: a seed is 0 or more.")

    def words(self) -> list[str]:
        """Return the command-line words of the options that are not their default."""
        return typed_words(self)


_READ_TOGETHER = 1024
"""Rows of an import that are read together; more would take memory and save nothing."""

_IMPORT_CHOICES = {
    "special_tokens": ("present", "absent", "stripped"),
    "last_layer": ("normed", "raw"),
}
_MOST_BLOCKS = 2**16
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
        for name, choices in _IMPORT_CHOICES.items():
            if (value := getattr(self, name)) is not None:
                choose(flag(name), value, dict.fromkeys(choices))
        if self.n_blocks is not None and not 0 < self.n_blocks < _MOST_BLOCKS:
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
            batch_tokens=_READ_TOGETHER,
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


def changed_options(options: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not their default, by name."""
    values = ((field, getattr(options, field.name)) for field in fields(options))
    return {field.name: value for field, value in values if value != field.default}


def typed_words(options: Any) -> list[str]:
    """Return the command-line words of the fields of a dataclass that are not their default."""
    words = []
    for name, value in changed_options(options).items():
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        words += [flag(name)] if value is True else [flag(name), text]
    return words
