"""Inspect a model without reading its weights: what it is, how deep, how wide, how long."""

import logging
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from probekit.backbone.config import load_config
from probekit.backbone.extras import require_extra
from probekit.backbone.identity import (
    Identity,
    computing_options,
    files_digest,
    random_digest,
    tokenizer_digest,
)
from probekit.backbone.info import BackboneInfo
from probekit.backbone.model_class import build_model, building, takes
from probekit.backbone.model_source import ModelSource, resolve_source
from probekit.backbone.structure import Structure, embedding_rows, position_limit, read_structure
from probekit.backbone.tokenizer import keep_words_apart, read_tokenizer

UNLIMITED = 100_000_000
"""A tokenizer's ``model_max_length`` above this (1e30 is usual) means that none was set."""

DEFAULT_LENGTH = 2048
"""The longest input of a model that names no limit (ALiBi, state-space models)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspection:
    """A model that can serve as a backbone, before its weights are read.

    Attributes:
        info: the facts.
        tokenizer: fast, and proven to keep pre-split words apart.
        config: transformers' configuration.
        source: where the files are.
        structure: what the model does, seen by running a small copy of it.
    """

    info: BackboneInfo
    tokenizer: PreTrainedTokenizerFast
    config: PretrainedConfig
    source: ModelSource
    structure: Structure

    @cached_property
    def text_tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer for running text: as its files describe it, not told to split words."""
        return read_tokenizer(self.source)


def inspect_backbone(
    model: str, *, revision: str | None = None, random_init: int | None = None
) -> Inspection:
    """Find a model, check that it can serve, and learn its facts and identity.

    The weights are not loaded. Those of a Hub repository are not even downloaded, because the Hub
    lists their sha256; local ones are read once, to hash them.

    Args:
        model: Hub id, local folder, or ``.gguf`` file.
        revision: branch, tag or commit of a Hub repository.
        random_init: seed of weights to be drawn in place of the model's own, of which none need
            be there.

    Raises:
        MissingFileError: a path that does not exist.
        HubError: repository missing, gated or unreachable.
        BackboneError: the model cannot serve (encoder-decoder, no fast tokenizer, no weights).
        OptionError: the name or revision makes no sense.
    """
    source = resolve_source(model, revision=revision, weights=random_init is None)
    if source.kind == "gguf":
        require_extra(model, "gguf")
    if source.adapter:
        require_extra(model, "adapters")
    config = load_config(source)
    with building(model, config), torch.device("meta"):
        skeleton = build_model(config)
    structure = read_structure(model, config)
    tokenizer = read_tokenizer(source)
    text_tokenizer = tokenizer_digest(tokenizer)
    keep_words_apart(tokenizer, model)
    source.fetch_unlisted()
    identity = Identity(
        architecture=type(skeleton).__name__,
        weights=files_digest(source.weights)
        if random_init is None
        else random_digest(config, random_init),
        adapter=files_digest(source.adapter) if source.adapter else None,
        configuration=computing_options(config),
        word_tokenizer=tokenizer_digest(tokenizer),
        text_tokenizer=text_tokenizer,
        token_types=_takes_token_types(skeleton, tokenizer),
        max_length=_max_length(model, tokenizer, position_limit(skeleton, config)),
        random_init=random_init,
    )
    info = BackboneInfo(
        name=model,
        source=source.kind,
        revision=source.revision,
        n_blocks=structure.n_blocks,
        dim=structure.dim,
        causal=structure.causal,
        final_norm=structure.final_norm is not None,
        vocab_size=embedding_rows(model, skeleton),
        identity=identity,
    )
    return Inspection(
        info=info, tokenizer=tokenizer, config=config, source=source, structure=structure
    )


def _takes_token_types(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> bool:
    """Say whether a tokenizer makes token types, and the model tells at least two of them apart."""
    kinds = model.config.to_dict().get("type_vocab_size") or 0
    told = takes(type(model), "token_type_ids") and kinds > 1
    return told and "token_type_ids" in tokenizer.model_input_names


def _max_length(model: str, tokenizer: PreTrainedTokenizerFast, positions: int | None) -> int:
    limits = [limit for limit in (tokenizer.model_max_length, positions) if limit is not None]
    known = [int(limit) for limit in limits if limit < UNLIMITED]
    if not known:
        _log.info("%s names no longest input; %d subwords are taken.", model, DEFAULT_LENGTH)
    return min(known, default=DEFAULT_LENGTH)
