"""The identity of a backbone: all that decides its hidden states, and nothing that does not.

Two models of one identity give the same states for the same text, wherever their files lie. An
entry's key, its reuse, and the models of `predict` and `cache verify` are judged by it alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from transformers import CONFIG_MAPPING, PretrainedConfig, PreTrainedTokenizerFast

from probekit.backbone.architecture import plain_config
from probekit.backbone.model_files import WeightFile
from probekit.base.fingerprint import digest, digest_file
from probekit.probe.model_parts.kept import OUTPUTS, PROVENANCE, differing_entries, without

# Not `token_dropout` (ESM), which scales embeddings when nothing is being trained, too.
_DROPOUT = re.compile(
    r"((attention|hidden|resid|residual|activation|embedding|embed|mlp|ff|ffn|classifier|summary"
    r"|seq_classif|qa|pooler|head|attention_probs|summary_first|summary_last)_)?dropout(_prob)?"
    r"|(resid|embd|attn|summary_first)_pdrop|((encoder|decoder)_)?layerdrop"
)
_OF_HEADS = ("classifier", "summary", "seq_classif", "qa", "pooler", "head")
"""Parts whose dropout no state depends on, in training either."""

_TRAINING = frozenset({"initializer_range", "initializer_factor", "gradient_checkpointing"})
_IDLE = PROVENANCE | _TRAINING | (OUTPUTS - {"tie_word_embeddings"})
"""What cannot change states, nor the output head that an entry may keep."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What decides a backbone's hidden states; its JSON form is part of an entry's key.

    Attributes:
        architecture: name of the transformers class, without a head ("BertModel").
        weights: digest of the weights (``files_digest``; ``random_digest`` of drawn ones).
        adapter: digest of the PEFT adapter beside them, which transformers applies; or None.
        configuration: the options that differ from the defaults of their class, without those
            that cannot change states (dropout, names of labels, where the model came from).
        word_tokenizer: digest of the tokenizer that reads pre-split words.
        text_tokenizer: digest of the one that reads running text.
        token_types: whether the model is told which of two texts a subword belongs to.
        max_length: the longest input in subwords, special tokens included.
        random_init: seed of weights drawn at random in place of the model's own; None for those.
        part: ``encoder`` where that half of an encoder-decoder is read; None for whole models, and
            for an encoder that was saved alone.
        code: digest of the model's own code, which ran; None where the class is transformers' own.
        quantize: ``8bit`` or ``4bit``, what linear layers were quantized to as they were read.
        method: what a saved run trained of it, ``lora:rank=4``; None of a model as it is.
        tuned: digest of the values that it trained, and of where it cut the model.
    """

    architecture: str
    weights: str
    adapter: str | None
    configuration: Mapping[str, Any]
    word_tokenizer: str
    text_tokenizer: str
    token_types: bool
    max_length: int
    random_init: int | None
    part: str | None = None
    code: str | None = None
    quantize: str | None = None
    method: str | None = None
    tuned: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; those with a default only where they are set."""
        later = {field.name for field in fields(self) if field.default is not MISSING}
        values = asdict(self)
        return {k: v for k, v in values.items() if k not in later or v is not None}

    def differences(self, other: "Identity") -> list[str]:
        """Return in words what ``other`` has in another way; equal identities differ in nothing."""
        one, two = asdict(self), asdict(other)
        mine, theirs = one.pop("configuration"), two.pop("configuration")
        differing = differing_entries(one, two)
        found = [(name.replace("_", " "), one[name], two[name]) for name in differing]
        absent = "the default"
        found += [
            (name, mine.get(name, absent), theirs.get(name, absent))
            for name in sorted(mine.keys() | theirs.keys())
        ]
        return [f"{name} {_short(a)}, now {_short(b)}" for name, a, b in found if a != b]


def _short(value: Any) -> str:
    """Return a value for a message; twelve digits of a digest will do."""
    text = str(value)
    return f"{text[:12]}..." if re.fullmatch(r"[0-9a-f]{64}", text) else text


def computing_options(config: PretrainedConfig) -> dict[str, Any]:
    """Return the options of a configuration that its forward pass may depend on.

    Those that equal the default of their class are left out: the next version of transformers may
    have more of them.
    """
    options = without(_given(config), _IDLE)
    return {name: value for name, value in options.items() if not _DROPOUT.fullmatch(name)}


def dropout_of(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the dropout of a model's blocks, which counts in training alone.

    Args:
        options: a configuration as JSON; what equals the default of its class is left out.
    """
    known = options.get("model_type") in CONFIG_MAPPING
    default = plain_config(CONFIG_MAPPING[options["model_type"]]()) if known else {}
    return {
        name: value
        for name, value in options.items()
        if _DROPOUT.fullmatch(name)
        and not name.startswith(_OF_HEADS)
        and value is not None
        and value != default.get(name)
    }


def _given(config: PretrainedConfig) -> dict[str, Any]:
    """Return what a configuration says otherwise than its class does, and its type."""
    default = plain_config(type(config)()).items()
    options = plain_config(config).items()
    return dict(option for option in options if option not in default) | {
        "model_type": config.model_type
    }


def files_digest(files: Sequence[WeightFile]) -> str:
    """Return the identity of weights (64 hex digits).

    One file: its sha256. Several: a digest over their sha256s, in the order of their names. A file
    whose sha256 the Hub does not list is read for it.
    """
    hashes = [file.sha256 or digest_file(file.path) for file in files]
    return hashes[0] if len(hashes) == 1 else digest(hashes)


def random_digest(config: PretrainedConfig, seed: int) -> str:
    """Return the identity of weights that a configuration and a seed draw (64 hex digits)."""
    return digest({"random_init": seed, "config": without(_given(config), PROVENANCE)})


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the identity of a fast tokenizer (64 hex digits).

    It covers vocabulary, rules and the roles of special tokens; not padding and truncation, which
    probekit decides itself, nor the files that the tokenizer was read from.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    for setting in ("padding", "truncation", "version"):
        state.pop(setting, None)
    split = bool(tokenizer.split_special_tokens)
    roles = {role: str(token) for role, token in tokenizer.special_tokens_map.items()}
    return digest({"backend": state, "roles": roles, "split specials": split})
