"""Tiny random models with real fast tokenizers, built offline from configurations.

``build("bert", folder)`` saves a model of under 200,000 parameters and a tokenizer trained on a
few sentences into ``folder``, in the layout that ``from_pretrained`` reads.
"""

import functools
import json
import math
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    DebertaV2Config,
    DebertaV2Model,
    DebertaV2Tokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

KINDS = ("bert", "roberta", "gpt2", "llama", "t5", "deberta-v2")
MAX_PARAMETERS = 200_000

SENTENCES = (
    "EU rejects German call to boycott British lamb .",
    "Peter Blackburn visited Brussels in 1996 with the European Commission .",
    "The village choir of Washington won 3 - 1 against Jordan on Sunday night !",
    "Amazon said its shares fell 4.5 percent ; analysts had expected a smaller loss .",
    "She walked along the river Jordan and wrote a long letter to her sister in Paris .",
    "Scientists at the university measured temperature , pressure and unbelievable speed .",
    "São Paulo , Zürich and Malmö are cities ; naïve readers ( and others ) often confuse them .",
    "Don't forget : the train to München leaves at 10:45 from platform 7 .",
)


def build(
    kind: str,
    folder: Path,
    *,
    layers: int = 3,
    dim: int = 32,
    vocab: int = 400,
    seed: int = 0,
    max_positions: int = 64,
) -> Path:
    """Save a random model and its tokenizer; return ``folder``.

    Args:
        kind: one of ``KINDS``.
        folder: created when it does not exist.
        layers: L, the number of blocks.
        dim: D, the width; a multiple of 4 (there are four attention heads).
        vocab: the largest vocabulary (the training text may yield a smaller one).
        seed: of the weights.
        max_positions: longest input in subwords, specials included.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer(kind, vocab)
    tokenizer.model_max_length = max_positions
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _model(kind, tokenizer, layers, dim, max_positions)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count < MAX_PARAMETERS, f"{kind}: {count} parameters, at most {MAX_PARAMETERS} allowed"
    model.save_pretrained(folder)
    return folder


@functools.cache
def tokenizer_of(
    kind: str, vocab: int = 400, *, add_prefix_space: bool = False
) -> PreTrainedTokenizerFast:
    """Return the fast tokenizer of ``kind``, made from ``SENTENCES`` (the same object each time).

    Args:
        kind: one of ``KINDS``.
        vocab: the largest vocabulary.
        add_prefix_space: for ``roberta`` and ``gpt2``: put a space before every pre-split word.
    """
    return build_tokenizer(kind, vocab, add_prefix_space=add_prefix_space)


def build_tokenizer(
    kind: str, vocab: int = 400, *, add_prefix_space: bool = False
) -> PreTrainedTokenizerFast:
    """Return a new tokenizer, as ``tokenizer_of`` does, that a test may change."""
    if kind == "bert":
        return BertTokenizerFast(vocab=_wordpiece(vocab), do_lower_case=False)
    if kind in ("roberta", "gpt2"):
        names, merges = _byte_level(vocab, _SPECIALS[kind])
        make = RobertaTokenizerFast if kind == "roberta" else GPT2Tokenizer
        return make(vocab=names, merges=merges, add_prefix_space=add_prefix_space)
    if kind == "llama":
        return _llama_tokenizer(vocab)
    if kind == "t5":
        return T5Tokenizer(vocab=_unigram(vocab, _SPECIALS[kind]), extra_ids=0)
    pieces = _unigram(vocab, _SPECIALS[kind])
    return DebertaV2Tokenizer(vocab=pieces, unk_id=1)


_SPECIALS = {
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "gpt2": ["<|endoftext|>"],
    "llama": ["<unk>", "<s>", "</s>"], "t5": ["<pad>", "</s>", "<unk>"],
    "deberta-v2": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
}  # fmt: skip


def _wordpiece(vocab: int) -> dict[str, int]:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    splitter = pre_tokenizers.BertPreTokenizer()
    words = [word for text in SENTENCES for word, _ in splitter.pre_tokenize_str(text)]
    pieces = [piece for piece, _ in _common_pieces(words, vocab - len(specials), inner="##")]
    return {piece: index for index, piece in enumerate([*specials, *pieces])}


def _byte_level(vocab: int, specials: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(SENTENCES, trainer)
    model = _model_json(tokenizer)
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def _unigram(vocab: int, specials: list[str]) -> list[tuple[str, float]]:
    """Return pieces and log probabilities, the specials first (so their ids are their places)."""
    words = ["\u2581" + word for text in SENTENCES for word in text.split()]
    weighted = _common_pieces(words, vocab - len(specials))
    total = sum(weight for _, weight in weighted)
    scored = [(piece, math.log(weight / total)) for piece, weight in weighted]
    return [(name, 0.0) for name in specials] + scored


def _common_pieces(words: list[str], count: int, inner: str = "") -> list[tuple[str, int]]:
    """Return every character and the heaviest substrings (occurrences times length).

    The library's own trainers break ties by hash order, so their vocabularies differ from
    process to process; this choice does not.

    Args:
        words: the training words.
        count: how many pieces to return, at most.
        inner: put before a piece that does not start its word (WordPiece's ``##``).
    """
    weights: Counter[str] = Counter()
    for word in words:
        for start in range(len(word)):
            for stop in range(start + 1, min(start + 8, len(word)) + 1):
                weights[(inner if start else "") + word[start:stop]] += stop - start
    ranked = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))
    single = [pair for pair in ranked if len(pair[0].removeprefix(inner)) == 1]
    longer = [pair for pair in ranked if len(pair[0].removeprefix(inner)) > 1]
    assert len(single) < count, f"a vocabulary of {count} cannot hold the {len(single)} characters"
    return single + longer[: count - len(single)]


def _llama_tokenizer(vocab: int) -> PreTrainedTokenizerFast:
    """A SentencePiece-like tokenizer: Unigram over Metaspace, a BOS in front, no padding token."""
    specials = _SPECIALS["llama"]
    tokenizer = Tokenizer(models.Unigram(_unigram(vocab, specials), unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def _model_json(tokenizer: Tokenizer) -> dict:
    return json.loads(tokenizer.to_str())["model"]


def _model(
    kind: str, tokenizer: PreTrainedTokenizerFast, layers: int, dim: int, positions: int
) -> PreTrainedModel:
    """A random model; RoBERTa counts positions from the padding id, and T5 has relative ones."""
    vocab, pad = {"vocab_size": len(tokenizer)}, {"pad_token_id": tokenizer.pad_token_id}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes = {
        **vocab, "num_hidden_layers": layers, "hidden_size": dim, "intermediate_size": 2 * dim,
        "num_attention_heads": 4, "max_position_embeddings": positions,
    }  # fmt: skip
    relative = {
        "type_vocab_size": 0, "relative_attention": True, "position_buckets": 16,
        "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
    }  # fmt: skip
    t5 = {"d_model": dim, "d_kv": dim // 4, "d_ff": 2 * dim, "num_heads": 4}
    t5 |= {"num_layers": layers, "num_decoder_layers": layers, "n_positions": positions}
    gpt2 = {"n_layer": layers, "n_embd": dim, "n_inner": 2 * dim, "n_head": 4}
    if kind == "bert":
        return BertModel(BertConfig(**sizes | pad, type_vocab_size=2))
    if kind == "roberta":
        sizes["max_position_embeddings"] += tokenizer.pad_token_id + 1
        return RobertaModel(RobertaConfig(**sizes | pad | ends, type_vocab_size=1))
    if kind == "deberta-v2":
        return DebertaV2Model(DebertaV2Config(**sizes | pad | relative))
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(**vocab | ends | gpt2, n_positions=positions))
    if kind == "llama":
        own = {"num_key_value_heads": 2, "tie_word_embeddings": True}
        return LlamaForCausalLM(LlamaConfig(**sizes | ends | own))
    return T5ForConditionalGeneration(T5Config(**vocab | t5))
