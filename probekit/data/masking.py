"""Masked language modelling: which subwords are hidden, and what stands in their place.

The rule is BERT's (Devlin et al. 2019, section 3.1 and appendix A.1): 15 % of a block's subwords
are chosen; of these 80 % become the mask token, 10 % a random subword, 10 % stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32
from transformers import PreTrainedTokenizerBase

from probekit.base.numbers.ragged import bounds_of
from probekit.base.numbers.seeding import numpy_generator
from probekit.errors import BackboneError

RATE = 0.15
_MASKED, _RANDOM = 0.8, 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskVocabulary:
    """What the masking rule needs to know of a tokenizer.

    Attributes:
        mask: id of the mask token.
        specials: ids that are never chosen, whatever the text holds: ``[CLS]``, but also a
            literal ``<unk>`` of the corpus that the tokenizer reads as its unknown token.
        ordinary: every other id of the vocabulary; random subwords are drawn from these.
    """

    mask: int
    specials: Int32[np.ndarray, " specials"]
    ordinary: Int32[np.ndarray, " ordinary"]


def learn_mask_vocabulary(tokenizer: PreTrainedTokenizerBase) -> MaskVocabulary:
    """Read the mask token and the special ids of a tokenizer.

    Raises:
        BackboneError: it has no mask token, or nothing but special tokens.
    """
    name = tokenizer.name_or_path or type(tokenizer).__name__
    if tokenizer.mask_token_id is None:
        raise BackboneError(
            f"tokenizer {name!r} has no mask token, so its model does not do masked language "
            "modelling. Use the next-token form (a causal model) or choose another encoder."
        )
    marked = [number for number, token in tokenizer.added_tokens_decoder.items() if token.special]
    specials = np.unique([*tokenizer.all_special_ids, *marked]).astype(np.int32)
    known = np.fromiter(tokenizer.get_vocab().values(), np.int32)
    ordinary = np.setdiff1d(known, specials)  # not 0..V: vocabularies have holes
    if not ordinary.size:
        raise BackboneError(f"tokenizer {name!r} has no tokens besides special ones.")
    return MaskVocabulary(mask=tokenizer.mask_token_id, specials=specials, ordinary=ordinary)


def mask_draws(
    ids: Sequence[str], lengths: Int[np.ndarray, " examples"], *, passes: int, seed: int
) -> Float64[np.ndarray, "3 subwords"]:
    """Return three uniform numbers per subword, for every example and pass.

    They depend on the seed, the example's id and length, and the pass alone: not on the other
    examples, their order or their number, nor on how many passes there are.

    Args:
        ids: name of each example.
        lengths: subwords of each example.
        passes: how often each example is read; its passes lie one after the other.
        seed: of all draws.
    """
    drawn = [
        numpy_generator(seed, "masking", name, number).random((3, int(length)))
        for name, length in zip(ids, lengths, strict=True)
        for number in range(passes)
    ]
    return np.concatenate([np.empty((3, 0)), *drawn], axis=1)


def choose(
    content: Int32[np.ndarray, " subwords"],
    lengths: Int[np.ndarray, " blocks"],
    keys: Float64[np.ndarray, " subwords"],
    *,
    vocabulary: MaskVocabulary,
    rate: float,
) -> Bool[np.ndarray, " subwords"]:
    """Choose the subwords to predict: in each block those with the smallest keys.

    A block of n subwords that are not special has ``rate * n`` of them chosen, rounded to the
    nearest number (halves up) and at least one, as in BERT's own code.

    Args:
        content: subwords of all blocks, without the special tokens around them.
        lengths: subwords of each block.
        keys: uniform in [0, 1).
        vocabulary: the special ids.
        rate: 0 to 1.
    """
    ordinary = ~np.isin(content, vocabulary.specials)
    block = np.repeat(np.arange(len(lengths)), lengths)
    candidates = np.bincount(block[ordinary], minlength=len(lengths))
    wanted = np.maximum(np.floor(rate * candidates + 0.5), np.minimum(candidates, 1))
    order = np.lexsort((np.where(ordinary, keys, np.inf), block))
    rank = np.arange(len(content)) - np.repeat(bounds_of(lengths)[:-1], lengths)
    chosen = np.zeros(len(content), bool)
    chosen[order[rank < wanted[block]]] = True
    return chosen


def replace(
    content: Int32[np.ndarray, " subwords"],
    chosen: Bool[np.ndarray, " subwords"],
    draws: Float64[np.ndarray, "2 subwords"],
    vocabulary: MaskVocabulary,
) -> Int32[np.ndarray, " subwords"]:
    """Return ``content`` as the model is to see it: chosen subwords masked, random or unchanged.

    Args:
        content: subwords of all blocks.
        chosen: which of them are to be predicted.
        draws: uniform in [0, 1): what becomes of a subword, and which random one it may become
            (by chance the same, as in BERT).
        vocabulary: the mask token, and the ids to draw from.
    """
    fate, which = draws
    ordinary = vocabulary.ordinary
    seen = content.copy()
    seen[chosen & (fate < _MASKED)] = vocabulary.mask
    random = chosen & (fate >= _MASKED) & (fate < _MASKED + _RANDOM)
    seen[random] = ordinary[(which[random] * len(ordinary)).astype(np.int64)]
    return seen
