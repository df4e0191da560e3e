"""What the files of a model say: its configuration, code of its own, and its fast tokenizer.

Code runs only where the user has typed that it may. A tokenizer keeps pre-split words apart.
"""

import copy
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils import is_protobuf_available, is_sentencepiece_available

from probekit.backbone.architecture import refuse_sizes
from probekit.backbone.checkpoint import VOCABULARY, Checkpoint
from probekit.backbone.forward import quiet_transformers
from probekit.backbone.given_model import GivenModel
from probekit.base.fingerprint import digest, digest_file
from probekit.base.installation import install_extra
from probekit.base.numbers import seeded
from probekit.data.texts import backend, check_word_separation
from probekit.errors import BackboneError, OptionError, reason_of
from probekit.store.json_types import list_of, read_object, text


def read_with(kind: Any, checkpoint: Checkpoint, **options: Any) -> Any:
    """Let a class of transformers read files of a model: none of the Hub's, no untrusted code.

    Args:
        kind: ``AutoConfig``, ``AutoTokenizer``, ``AutoModel``, ...
        checkpoint: where the files lie.
        options: more arguments of ``from_pretrained``.

    Raises:
        Exception: whatever transformers raises where files are damaged.
    """
    if checkpoint.gguf_file:
        options["gguf_file"] = checkpoint.gguf_file
    folder = str(checkpoint.folder)
    with quiet_transformers(), seeded(0):  # older transformers draw weights before they read them
        return kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=checkpoint.trusted, **options
        )


def load_config(checkpoint: Checkpoint) -> PretrainedConfig:
    """Read the configuration of a model.

    Raises:
        BackboneError: it is damaged, says sizes that no model has, or is of a type that
            transformers does not know and whose code is not trusted.
        OptionError: code is trusted that is not there.
    """
    check_trusted(checkpoint)
    if not checkpoint.gguf_file:
        refuse_sizes(checkpoint.name, read_object(checkpoint.folder / "config.json") or {})
    try:
        config: PretrainedConfig = read_with(AutoConfig, checkpoint)
        if not list_of(text)(config.architectures or []):
            raise TypeError("its architectures are not a list of names")
        if checkpoint.trusted:  # so that transformers builds models of this configuration
            source, folder = own_classes(checkpoint)["AutoModel"], str(checkpoint.folder)
            model = get_class_from_dynamic_module(source, folder, local_files_only=True)
            AutoModel.register(type(config), model, exist_ok=True)
    except Exception as error:  # JSON, key, value and library errors, by damage; the code's own
        if not checkpoint.trusted and (why := refusal(checkpoint)):
            raise BackboneError(why) from error
        where = checkpoint.folder / (checkpoint.gguf_file or "config.json")
        raise BackboneError(
            f"model {checkpoint.name!r}: its configuration {where} cannot be used "
            f"({reason_of(error)}). Expected a model type that transformers has built in."
        ) from error
    refuse_sizes(checkpoint.name, plain_config(config))
    return config


def plain_config(config: PretrainedConfig) -> dict[str, Any]:
    """Return a configuration as JSON values; what JSON has not (infinity, a dtype) becomes text."""
    return dict(json.loads(json.dumps(config.to_dict(), default=str), parse_constant=str))


def own_classes(checkpoint: Checkpoint) -> Mapping[str, str]:
    """Return the classes of its own code that a model's configuration names (``auto_map``)."""
    if checkpoint.gguf_file:
        return {}
    try:
        config = json.loads((checkpoint.folder / "config.json").read_text("utf-8"))
        auto_map = config.get("auto_map")
    except (ValueError, AttributeError, RecursionError):  # which reading the configuration says
        return {}
    return auto_map if isinstance(auto_map, dict) else {}


def check_trusted(checkpoint: Checkpoint) -> None:
    """Check that the code of a model is there to run, where the user has typed that it may.

    Raises:
        OptionError: the model has none.
        BackboneError: its configuration names no class that would do, or one elsewhere.
    """
    if not checkpoint.trusted:
        return
    named, name = own_classes(checkpoint), checkpoint.name
    if not named:
        raise OptionError(
            f"--trust-remote-code: model {name!r} has no code of its own (no auto_map in its "
            "config.json). Leave it out."
        )
    if missing := [kind for kind in ("AutoConfig", "AutoModel") if kind not in named]:
        raise BackboneError(
            f"model {name!r}: the auto_map of its config.json has no {missing[0]}, which probekit "
            "needs to get its hidden states. Choose another model."
        )
    elsewhere = [source for source in map(str, named.values()) if "--" in source]
    if elsewhere:
        raise BackboneError(
            f"model {name!r}: its code is in another repository ({elsewhere[0].split('--')[0]}), "
            "and config.json pins no revision of it. Copy its .py files into the model's folder, "
            "and remove the repository from auto_map in config.json."
        )


def refusal(checkpoint: Checkpoint) -> str | None:
    """Return why a model cannot be read without its own code; None of a model that has none."""
    if "AutoConfig" not in own_classes(checkpoint):
        return None
    files = ", ".join(sorted(path.name for path in checkpoint.folder.glob("*.py")))
    where = f"{checkpoint.folder}: {files}" if files else "the .py files of its repository"
    return (
        f"model {checkpoint.name!r} runs its own code, which could do anything on this machine. "
        f"Read it ({where}); if you trust it, give --trust-remote-code."
    )


def code_digest(folder: Path) -> str:
    """Return the digest of all code in a model's folder (64 hex digits), by path and content."""
    return digest(
        {path.relative_to(folder).as_posix(): digest_file(path) for path in folder.rglob("*.py")}
    )


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
        tokenizer = copy.deepcopy(checkpoint.tokenizer)
        backend(tokenizer)  # which switches padding and truncation off
        return tokenizer
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
    backend(tokenizer)
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
