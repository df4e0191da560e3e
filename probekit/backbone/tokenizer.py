"""Load a model's fast tokenizer so that pre-split words stay words."""

import json
from collections.abc import Collection

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from probekit.backbone.architecture import read_with
from probekit.backbone.checkpoint import VOCABULARY, Checkpoint
from probekit.backbone.given_model import GivenModel
from probekit.base.installation import install_extra
from probekit.data.texts import backend, check_word_separation
from probekit.errors import BackboneError, reason_of


def keep_words_apart(tokenizer: PreTrainedTokenizerFast, model: str) -> None:
    """Make a tokenizer that reads running text read pre-split words, and prove that it does.

    A byte-level tokenizer (RoBERTa, GPT-2, Llama 3) marks a word by the space before it, so each
    pre-split word gets one. The option ``add_prefix_space=True`` of ``from_pretrained`` does so
    for some classes only (not for generic ones, nor for GGUF files), so the rule is put into the
    tokenizer itself.

    Args:
        tokenizer: from ``read_tokenizer``; changed in place.
        model: its model, for messages.

    Raises:
        BackboneError: it glues words together.
    """
    if _glues(tokenizer):
        _put_space_before_words(tokenizer.backend_tokenizer)
        tokenizer.add_prefix_space = True
        if _glues(tokenizer):
            raise BackboneError(
                f"model {model!r}: its tokenizer glues pre-split words together, and no rule "
                "that probekit knows separates them. Choose a model of another family."
            )
    tokenizer.padding_side = "right"


def _put_space_before_words(inner: Tokenizer) -> None:
    """Make a tokenizer read each text, and each pre-split word, as if a space came before it.

    Where the pre-tokenizer is byte level alone, its own option does it. Where it splits before
    that (Llama 3 at digits and punctuation), the option would put a space before every piece of
    a word; there the space goes in front of all rules.
    """
    if isinstance(inner.pre_tokenizer, pre_tokenizers.ByteLevel):
        state = json.loads(inner.to_str())["pre_tokenizer"]
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=True, trim_offsets=state["trim_offsets"], use_regex=state["use_regex"]
        )
        return
    rules = [normalizers.Prepend(" ")]
    if inner.normalizer is not None:
        rules.append(inner.normalizer)
    inner.normalizer = normalizers.Sequence(rules)


def read_tokenizer(checkpoint: Checkpoint | GivenModel) -> PreTrainedTokenizerFast:
    """Return a tokenizer of its own for a model, for running text, as its files describe it.

    Without a ``tokenizer.json``, transformers converts its vocabulary. Padding and truncation that
    its file may set are off.

    Raises:
        BackboneError: there is none, it has no fast version, or what converts it is not installed.
    """
    if isinstance(checkpoint, GivenModel):
        return checkpoint.read_tokenizer()
    names = {path.name for path in checkpoint.folder.iterdir()}
    if not checkpoint.gguf_file and not any(map(VOCABULARY.fullmatch, names)):
        raise BackboneError(
            f"model {checkpoint.name!r}: no tokenizer files (tokenizer.json, vocab.txt, ...) "
            "beside its config.json. Save the tokenizer into the same folder."
        )
    try:
        tokenizer = read_with(AutoTokenizer, checkpoint)
    except Exception as error:  # a dozen kinds, one per tokenizer format
        _say_what_converts(checkpoint.name, names, error)
        raise BackboneError(
            f"model {checkpoint.name!r}: its tokenizer cannot be loaded "
            f"({reason_of(error)}). probekit needs a fast tokenizer (tokenizer.json)."
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise BackboneError(
            f"model {checkpoint.name!r}: {type(tokenizer).__name__} has no fast version, which "
            "probekit needs to align words with subwords. Choose a model with a tokenizer.json."
        )
    backend(tokenizer)  # which switches padding and truncation off
    return tokenizer


def _say_what_converts(model: str, names: Collection[str], error: Exception) -> None:
    """Say what to install where a SentencePiece model was to be converted and could not be.

    Raises:
        BackboneError: that is so.
    """
    pieces = sorted(name for name in names if name.endswith(".model"))
    able = is_sentencepiece_available() and is_protobuf_available()
    if pieces and "tokenizer.json" not in names and not able:
        raise BackboneError(
            f"model {model!r}: its tokenizer is the SentencePiece model {pieces[0]}, which is "
            "converted by the packages sentencepiece and protobuf. "
            + install_extra("sentencepiece")
        ) from error


def _glues(tokenizer: PreTrainedTokenizerFast) -> bool:
    try:
        check_word_separation(tokenizer)
    except BackboneError:
        return True
    return False
