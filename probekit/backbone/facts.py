"""What is known of a model before its weights are read: identity, depth, width, tokenizers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from transformers import CONFIG_MAPPING, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from probekit.backbone.checkpoint import Checkpoint, WeightFile
from probekit.backbone.given_model import GivenModel
from probekit.backbone.model_files import plain_config, read_tokenizer
from probekit.backbone.points import Place, find_points
from probekit.backbone.saved_run import SavedRun, called
from probekit.backbone.structure import Structure, shorten
from probekit.base.fingerprint import digest, digest_file
from probekit.data.encoded import EncodedSplit
from probekit.data.predicted import encode_predicted
from probekit.data.texts import encode_pairs, encode_texts, encode_words
from probekit.data.token_choice import TokenChoice, render, require_template
from probekit.errors import BackboneError, DataError, OptionError
from probekit.probe.model_parts import OUTPUTS, PROVENANCE, differing_entries, without_idle
from probekit.tasks import Example
from probekit.tasks.conversations import messages_of
from probekit.tuning import Method

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
        before, now = asdict(self), asdict(other)
        mine, theirs = before.pop("configuration"), now.pop("configuration")
        differing = differing_entries(before, now)
        changes = [(name.replace("_", " "), before[name], now[name]) for name in differing]
        absent = "the default"
        changes += [
            (name, mine.get(name, absent), theirs.get(name, absent))
            for name in sorted(mine.keys() | theirs.keys())
        ]
        return [f"{name} {_short(a)}, now {_short(b)}" for name, a, b in changes if a != b]


def _short(value: Any) -> str:
    """Return a value for a message; twelve digits of a digest will do."""
    text = str(value)
    return f"{text[:12]}..." if re.fullmatch(r"[0-9a-f]{64}", text) else text


def computing_options(config: PretrainedConfig) -> dict[str, Any]:
    """Return the options of a configuration that its forward pass may depend on.

    Those that equal the default of their class are left out: the next version of transformers may
    have more of them.
    """
    options = without_idle(_set_options(config), _IDLE)
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


def _set_options(config: PretrainedConfig) -> dict[str, Any]:
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
    return digest({"random_init": seed, "config": without_idle(_set_options(config), PROVENANCE)})


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
        return values if self.base is not None else without_idle(values, {"base"})


@dataclass(frozen=True, kw_only=True)
class TunedValues:
    """What makes the model of a run of its base model.

    Attributes:
        run: the saved run.
        whole: structure of its base.
    """

    run: SavedRun
    whole: Structure

    def put_into(self, model: "PreTrainedModel") -> Structure:
        """Cut the base model, and give it the trained values; it is frozen then, and evaluating.

        Returns:
            its structure now.

        Raises:
            BackboneError: the method cannot be had.
            RecordError: the values are damaged.
        """
        run = self.run
        structure = shorten(run.name, model, self.whole, run.deepest)
        run.tuning.attach(model, torch.Generator())
        run.packaging.put_into(model, run.file)
        run.tuning.settle(model.train(False).requires_grad_(False))
        return structure


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
        n_values: numbers in its weights and constants, without pooler and head.
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
    def places(self) -> Mapping[str, Place]:
        """Where in its blocks the model has points besides the residual stream."""
        return find_points(self.info.name, self.config)

    @cached_property
    def text_tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer for running text: as it is given, not told to split words."""
        return read_tokenizer(self.checkpoint)

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

    @property
    def chat_template(self) -> str | None:
        """The sha256 of the template that writes conversations; None where there is none."""
        template = self.text_tokenizer.chat_template
        return digest(template) if template else None

    def check_same_template(self, wanted: str | None, made: str) -> None:
        """Refuse another chat template than that of what was made with the model before.

        Args:
            wanted: its sha256; None of texts that are no conversations.
            made: what was made, for the message.

        Raises:
            BackboneError: it is another one.
        """
        if wanted not in (None, self.chat_template):
            raise BackboneError(
                f"model {self.info.name!r}: its chat template has changed since {made} was made, "
                f"so conversations read differently. Restore that template, or make {made} again."
            )

    def encode(
        self,
        examples: Sequence[Example],
        *,
        max_length: int | None,
        overlong: str,
        masking: Mapping[str, Any] | None = None,
        only: str | None = None,
        conversations: bool = False,
    ) -> EncodedSplit:
        """Tokenise the examples of a task and cut them into windows.

        Args:
            examples: all of words, all of one text, or all of two.
            max_length: most subwords of a window, special tokens included; None is the model's
                limit.
            overlong: ``stride``, ``truncate`` or ``error``.
            masking: for language modelling, what is predicted: options of ``encode_predicted``.
            only: which tokens of a text have a row of their own (`TokenChoice`); None is all.
            conversations: read the texts as messages, by the tokenizer's chat template.

        Raises:
            BackboneError: the tokenizer glues words together, or does not fit what is predicted.
            DataError: an example is too long and ``overlong`` is ``error``, or is not valid
                Unicode.
            OptionError: ``max_length`` leaves no room for text.
        """
        ids = [example.id for example in examples]
        limit = max_length or self.info.identity.max_length
        cut: dict[str, Any] = {"max_length": limit, "overlong": overlong}
        if masking is None and (not examples or examples[0].text is None):
            words = [example.words for example in examples]
            return encode_words(self.tokenizer, ids, words, **cut)
        tokenizer = self.text_tokenizer
        texts = [example.text for example in examples if example.text is not None]
        assert len(texts) == len(ids), "the examples of a split are all words, or all texts"
        if masking is not None:
            return encode_predicted(tokenizer, ids, texts, max_length=limit, **masking)
        if examples[0].text_pair is None:
            choice, turns = None if only is None else TokenChoice.parse(only), None
            if conversations:
                require_template(tokenizer, self.info.name)
                rendered = []
                for name, text in zip(ids, texts, strict=True):
                    if (messages := messages_of(text)) is None:
                        raise DataError(
                            f"{name}: expected a conversation, a list of messages with role and "
                            f"content; found the text {text[:40]!r}."
                        )
                    rendered.append(render(tokenizer, messages, name))
                texts, turns = [of.text for of in rendered], [of.turns for of in rendered]
            return encode_texts(tokenizer, ids, texts, **cut, only=choice, turns=turns)
        seconds = [example.text_pair for example in examples if example.text_pair is not None]
        pairs, types = list(zip(texts, seconds, strict=True)), self.info.identity.token_types
        return encode_pairs(tokenizer, ids, pairs, **cut, token_types=types)

    def with_room(self, method: Method) -> "Inspection":
        """Return the model with a longest input that leaves room for what a method puts before it.

        Raises:
            OptionError: that leaves no text.
        """
        longest = self.info.identity.max_length
        if method.positions >= longest:
            raise OptionError(
                f"--method {method.name}: {method.positions} virtual tokens fill all {longest} "
                f"positions of {self.info.name!r}. Give fewer: --method {method.name}:length=20."
            )
        identity = replace(self.info.identity, max_length=longest - method.positions)
        return replace(self, info=replace(self.info, identity=identity))
