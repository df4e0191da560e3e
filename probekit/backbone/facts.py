"""Inspect a model without reading its weights: what it is, how deep, how wide, how long."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from probekit.backbone.architecture import (
    build_model,
    building,
    config_to_read,
    load_config,
    plain_config,
)
from probekit.backbone.checkpoint import Checkpoint, find_checkpoint
from probekit.backbone.given_model import GivenModel
from probekit.backbone.identity import (
    Identity,
    computing_options,
    files_digest,
    random_digest,
    tokenizer_digest,
)
from probekit.backbone.model_classes import ENCODER, saved_whole, takes
from probekit.backbone.own_code import code_digest
from probekit.backbone.quantized import check_quantizable
from probekit.backbone.saved_run import SavedRun, called
from probekit.backbone.structure import Structure, embedding_rows, read_structure
from probekit.backbone.tokenizer import keep_words_apart, read_tokenizer
from probekit.backbone.tuned import TunedValues, inspect_run
from probekit.data.encoded import EncodedSplit
from probekit.data.pairs import encode_pairs
from probekit.data.predicted import encode_predicted
from probekit.data.texts import encode_texts, encode_words
from probekit.errors import BackboneError, OptionError
from probekit.tasks import Example

_PER_BYTE, _FREE_WEIGHTS = 8, 2**24
"""Most weights of a model: so many for each byte of its files, and so many more. Packed ones take a
bit and a half each."""

UNLIMITED = 100_000_000
"""A tokenizer's ``model_max_length`` above this (1e30 is usual) means that none was set."""

DEFAULT_LENGTH = 2048
"""The longest input of a model that names no limit (ALiBi, state-space models)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BackboneInfo:
    """The facts of a backbone that extraction and the manifest need.

    Attributes:
        name: the model as the user wrote it.
        source: "hub", "folder", "gguf", "memory" or "run".
        revision: the commit of a Hub repository, else None.
        n_blocks: L; ``hidden_states`` has L + 1 layers.
        dim: D, the width of every layer.
        causal: True if a position sees only earlier ones (a decoder).
        final_norm: True if layer L is after a normalisation that is not part of block L.
        vocab_size: rows of the input embedding.
        identity: what decides its states: the class, the longest input, ...
        base: of the model of a saved run, the one that was trained; None of a model as it is.
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
    base: str | None = None

    @property
    def called(self) -> str:
        """What the cache calls it, unless it is told otherwise."""
        return called(self.base or self.name, self.identity.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, as a manifest holds them; a base only of a run's."""
        values = asdict(self) | {"identity": self.identity.to_json()}
        return {name: one for name, one in values.items() if name != "base" or one is not None}


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspection:
    """A model that can serve as a backbone, before its weights are read.

    Attributes:
        info: the facts.
        tokenizer: fast, and proven to keep pre-split words apart.
        config: transformers' configuration of what is read.
        whole: that of what was saved, where the text model of several is read; else the same.
        checkpoint: where the files are, or the model in memory.
        structure: what the model does, seen by running a small copy of it.
        n_values: numbers in its weights, without pooler and head.
        tuned: what a saved run trained of it; None of a model as it is.
    """

    info: BackboneInfo
    tokenizer: PreTrainedTokenizerFast
    config: PretrainedConfig
    whole: PretrainedConfig
    checkpoint: Checkpoint | GivenModel
    structure: Structure
    n_values: int
    tuned: TunedValues | None = None

    @cached_property
    def text_tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer for running text: as it is given, not told to split words."""
        return _tokenizer_of(self.checkpoint)

    @cached_property
    def pad_id(self) -> int:
        """The id to fill padding with (right of the text, always).

        It is masked, so any id that the model has will do: the tokenizer's own padding token where
        there is one (RoBERTa counts positions from it), else its end-of-text token, else 0.
        """
        # the second one is asked for only where it is needed: transformers logs that it is not set
        ids = (getattr(self.tokenizer, role) for role in ("pad_token_id", "eos_token_id"))
        return next((i for i in ids if i is not None and i < self.info.vocab_size), 0)

    def config_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values."""
        return plain_config(self.config)

    def encode(
        self,
        examples: Sequence[Example],
        *,
        max_length: int | None,
        overlong: str,
        masking: Mapping[str, Any] | None = None,
    ) -> EncodedSplit:
        """Tokenise the examples of a task and cut them into windows.

        Args:
            examples: all of words, all of one text, or all of two.
            max_length: most subwords of a window, special tokens included; None is the model's
                limit.
            overlong: ``stride``, ``truncate`` or ``error``.
            masking: for language modelling, what is predicted: options of ``encode_predicted``.

        Raises:
            BackboneError: the tokenizer glues words together, or does not fit what is predicted.
            DataError: an example is too long and ``overlong`` is ``error``, or is not valid
                Unicode.
            OptionError: ``max_length`` leaves no room for text.
        """
        ids, limit = (
            [example.id for example in examples],
            max_length or self.info.identity.max_length,
        )
        if masking is not None:
            texts = [_given(example.text) for example in examples]
            return encode_predicted(self.text_tokenizer, ids, texts, max_length=limit, **masking)
        if not examples or examples[0].text is None:
            words = [example.words for example in examples]
            return encode_words(self.tokenizer, ids, words, max_length=limit, overlong=overlong)
        tokenizer, texts = self.text_tokenizer, [_given(example.text) for example in examples]
        if examples[0].text_pair is None:
            return encode_texts(tokenizer, ids, texts, max_length=limit, overlong=overlong)
        seconds = [_given(example.text_pair) for example in examples]
        return encode_pairs(
            tokenizer,
            ids,
            list(zip(texts, seconds, strict=True)),
            max_length=limit,
            overlong=overlong,
            token_types=self.info.identity.token_types,
        )


def _given(text: str | None) -> str:
    assert text is not None, "the examples of a split are all words, all texts or all pairs"
    return text


def inspect_backbone(
    model: str | GivenModel,
    *,
    revision: str | None = None,
    random_init: int | None = None,
    part: str | None = None,
    quantize: str | None = None,
    trust_remote_code: bool = False,
) -> Inspection:
    """Find a model, check that it can serve, and learn its facts and identity.

    The weights are not loaded. Those of a Hub repository are not even downloaded, because the Hub
    lists their sha256; local ones, and the tensors of a model in memory, are read once, to hash
    them.

    Args:
        model: Hub id, local folder, or ``.gguf`` file; or a model in memory; or the folder of a
            saved run that trained a model.
        revision: branch, tag or commit of a Hub repository.
        random_init: seed of weights to be drawn in place of the model's own, of which none need
            be there.
        part: ``encoder``: the half of an encoder-decoder that is read.
        quantize: ``8bit`` or ``4bit``: quantize its linear layers as they are read.
        trust_remote_code: run the model's own code, which may do anything on this machine.

    Raises:
        MissingFileError: a path that does not exist.
        HubError: repository missing, gated or unreachable.
        BackboneError: the model cannot serve (no fast tokenizer, no weights), or what quantizes it
            is not installed.
        OptionError: the name or revision makes no sense, or the half of an encoder-decoder is not
            named, or the model cannot be quantized.
    """
    if isinstance(model, GivenModel):
        if trust_remote_code:
            raise OptionError(
                "--trust-remote-code is for code in a model's folder, and the model is given in "
                "memory. Leave it out."
            )
        return _inspect(model, model.config, random_init, part, quantize)
    if (run := SavedRun.at(model)) is not None:
        return inspect_run(
            run,
            trust_remote_code=trust_remote_code,
            asked={
                "revision": revision,
                "random_init": random_init,
                "part": part,
                "quantize": quantize,
            },
        )
    checkpoint = find_checkpoint(
        model, revision=revision, weights=random_init is None, trusted=trust_remote_code
    )
    return _inspect(checkpoint, load_config(checkpoint), random_init, part, quantize)


def part_to_name(model: str) -> str | None:
    """Return the part without which a model cannot be inspected; None of one that is read whole.

    Raises:
        ProbekitError: as ``inspect_backbone``, where the configuration cannot be read.
    """
    config = load_config(find_checkpoint(model, weights=False))
    return ENCODER if saved_whole(config) else None


def _inspect(
    checkpoint: Checkpoint | GivenModel,
    whole: PretrainedConfig,
    random_init: int | None,
    part: str | None,
    quantize: str | None,
) -> Inspection:
    """Learn the facts and the identity of a model that was found."""
    model = checkpoint.name
    if quantize is not None:
        check_quantizable(checkpoint, whole, f"--quantize {quantize}")
    config = config_to_read(model, whole, part)
    with building(model, config), torch.device("meta"):
        skeleton = build_model(config)
    rows = embedding_rows(model, skeleton)
    n_values = sum(value.numel() for value in skeleton.parameters())
    if random_init is None:  # before anything is built of real memory
        _check_held(checkpoint, n_values)
    if isinstance(checkpoint, GivenModel):
        checkpoint.check(skeleton, rows)
    structure = read_structure(model, config)
    tokenizer = _tokenizer_of(checkpoint)
    text_tokenizer = tokenizer_digest(tokenizer)
    keep_words_apart(tokenizer, model)
    weights, adapter = _weights_of(checkpoint, read=random_init is None)
    identity = Identity(
        architecture=type(skeleton).__name__,
        weights=weights if random_init is None else random_digest(config, random_init),
        adapter=adapter,
        configuration=computing_options(config),
        word_tokenizer=tokenizer_digest(tokenizer),
        text_tokenizer=text_tokenizer,
        # the tokenizer makes them, and the model tells at least two of them apart
        token_types="token_type_ids" in tokenizer.model_input_names
        and takes(type(skeleton), "token_type_ids")
        and (skeleton.config.to_dict().get("type_vocab_size") or 0) > 1,
        max_length=longest_input(model, tokenizer, skeleton, config),
        random_init=random_init,
        part=part,
        code=code_digest(checkpoint.folder)
        if isinstance(checkpoint, Checkpoint) and checkpoint.trusted
        else None,
        quantize=quantize,
    )
    info = BackboneInfo(
        name=model,
        source=checkpoint.kind,
        revision=checkpoint.revision,
        n_blocks=structure.n_blocks,
        dim=structure.dim,
        causal=structure.causal,
        final_norm=structure.final_norm is not None,
        vocab_size=rows,
        identity=identity,
    )
    return Inspection(
        info=info,
        tokenizer=tokenizer,
        config=config,
        whole=whole,
        checkpoint=checkpoint,
        structure=structure,
        n_values=n_values,
    )


def _check_held(checkpoint: Checkpoint | GivenModel, n_values: int) -> None:
    """Check that files can hold the weights that a configuration asks for.

    Raises:
        BackboneError: they are far too small.
    """
    files = [] if isinstance(checkpoint, GivenModel) else [one.path for one in checkpoint.weights]
    if not files or not all(file.is_file() for file in files):  # in memory, or on the Hub
        return
    held = sum(file.stat().st_size for file in files)
    if n_values > _PER_BYTE * held + _FREE_WEIGHTS:
        raise BackboneError(
            f"model {checkpoint.name!r}: its configuration asks for {n_values:,} weights, and its "
            f"files are {held:,} bytes. They belong to another model or version."
        )


def _tokenizer_of(checkpoint: Checkpoint | GivenModel) -> PreTrainedTokenizerFast:
    """Return a tokenizer of its own for running text, padding and truncation off."""
    if isinstance(checkpoint, GivenModel):
        return checkpoint.read_tokenizer()
    return read_tokenizer(checkpoint)


def _weights_of(checkpoint: Checkpoint | GivenModel, *, read: bool) -> tuple[str, str | None]:
    """Return the digests of weights and adapter; unless they are read, there may be none."""
    if isinstance(checkpoint, GivenModel):
        return checkpoint.digest() if read else "", None
    checkpoint.fetch(listed=False)
    weights = files_digest(checkpoint.weights) if read else ""
    return weights, files_digest(checkpoint.adapter) if checkpoint.adapter else None


def longest_input(
    name: str, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel, config: PretrainedConfig
) -> int:
    """Return the most subwords of a text that a tokenizer allows and a model has positions for.

    RoBERTa and its kin count from the padding id, so 514 rows of position embeddings number 512
    positions. I-BERT's embeddings are of a class of its own.
    """
    counted = [
        len(module.weight) - module.padding_idx - 1
        for part, module in model.named_modules()
        if "position" in part and isinstance(getattr(module, "padding_idx", None), int)
    ]
    given = config.to_dict()
    named = (
        *("max_position_embeddings", "max_seq_len", "seq_length"),
        "max_encoder_position_embeddings",  # LED
    )
    limits = [given.get(field) or getattr(config, field, None) for field in named]
    positions = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    known = [tokenizer.model_max_length, *(counted or positions)[:1]]
    known = [int(limit) for limit in known if limit is not None and limit < UNLIMITED]
    if not known:
        _log.info("%s names no longest input; %d subwords are taken.", name, DEFAULT_LENGTH)
    return min(known, default=DEFAULT_LENGTH)
