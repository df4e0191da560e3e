"""Load a model's fast tokenizer so that pre-split words stay words."""

import json
from typing import Any

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from probekit.backbone.files import has_vocabulary
from probekit.backbone.quiet import quiet_transformers
from probekit.backbone.source import ModelSource
from probekit.data.alignment import check_word_separation
from probekit.errors import BackboneError


def load_tokenizer(source: ModelSource) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a model; padding and truncation that its file may set are off.

    A byte-level tokenizer (RoBERTa, GPT-2, Llama 3) marks a word by the space before it, so each
    pre-split word gets one: by ``add_prefix_space=True`` where the whole pre-tokenizer is byte
    level, else by a rule in front of its own splitting (where that option would put a space
    before every digit and punctuation mark inside the word).

    Raises:
        BackboneError: there is none, it has no fast version, or it glues words together.
    """
    tokenizer = _load(source)
    inner = tokenizer.backend_tokenizer
    if _glues(tokenizer) and isinstance(inner.pre_tokenizer, pre_tokenizers.ByteLevel):
        if source.kind == "gguf":
            # the option of from_pretrained does not reach the backend of a GGUF tokenizer
            inner.pre_tokenizer = _with_prefix_space(inner)
        else:
            tokenizer = _load(source, add_prefix_space=True)
    elif _glues(tokenizer):
        _prepend_space(inner)
    try:
        check_word_separation(tokenizer)
    except BackboneError as error:
        raise BackboneError(
            f"model {source.name!r}: its tokenizer glues pre-split words together, and no rule "
            "that probekit knows separates them. Choose a model of another family."
        ) from error
    tokenizer.padding_side = "right"
    return tokenizer


def _load(source: ModelSource, **options: Any) -> PreTrainedTokenizerFast:
    if source.gguf_file:
        options["gguf_file"] = source.gguf_file
    elif not has_vocabulary(source.folder):
        raise BackboneError(
            f"model {source.name!r}: no tokenizer files (tokenizer.json, vocab.txt, ...) beside "
            "its config.json. Save the tokenizer into the same folder."
        )
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(
                str(source.folder), local_files_only=True, trust_remote_code=False, **options
            )
    except Exception as error:  # a dozen kinds, one per tokenizer format
        raise BackboneError(
            f"model {source.name!r}: its tokenizer cannot be loaded "
            f"({type(error).__name__}: {_first_line(error)}). probekit needs a fast tokenizer "
            "(tokenizer.json)."
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise BackboneError(
            f"model {source.name!r}: {type(tokenizer).__name__} has no fast version, which the "
            "alignment of words and subwords needs. Choose a model with a tokenizer.json."
        )
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    return tokenizer


def _glues(tokenizer: PreTrainedTokenizerFast) -> bool:
    try:
        check_word_separation(tokenizer)
    except BackboneError:
        return True
    return False


def _with_prefix_space(inner: Tokenizer) -> pre_tokenizers.ByteLevel:
    """Return the byte-level pre-tokenizer of ``inner`` again, with a space before each word."""
    state = json.loads(inner.to_str())["pre_tokenizer"]
    return pre_tokenizers.ByteLevel(
        add_prefix_space=True,
        trim_offsets=state["trim_offsets"],
        use_regex=state["use_regex"],
    )


def _prepend_space(inner: Tokenizer) -> None:
    """Put a space before each text or pre-split word, ahead of all other rules."""
    rules = [normalizers.Prepend(" ")]
    if inner.normalizer is not None:
        rules.append(inner.normalizer)
    inner.normalizer = normalizers.Sequence(rules)


def padding_id(tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> int:
    """Return the id to fill padding with: masked, so any id that the model has will do.

    The tokenizer's own padding token where there is one (RoBERTa counts positions from it), else
    its end-of-text token, else 0.
    """
    for number in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if number is not None and number < vocab_size:
            return int(number)
    return 0


def _first_line(error: Exception) -> str:
    text = str(error).strip() or "no message"
    return text.splitlines()[0][:200]
