"""Language modelling: texts in blocks, which subwords are predicted, and what stands in for them.

Masking is BERT's (Devlin et al. 2019, section 3.1 and appendix A.1): 15 % of a block's subwords are
chosen; of these 80 % become the mask token, 10 % a random subword, 10 % stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64
from transformers import PreTrainedTokenizerBase

from probekit.base.numbers import bounds_of, numpy_generator, ragged_arange
from probekit.data.encoded import EncodedSplit, Subwords
from probekit.data.texts import backend, encode_portions, learn_specials
from probekit.data.windows import Windows, assemble, check_limits
from probekit.errors import BackboneError

RATE = 0.15
_MASKED, _RANDOM = 0.8, 0.1

# A text of five subwords, "a b c d e", in blocks of at most three: "a b c" and "d e".
#
# Next token, every position (--every 1): the last subword of a block has nothing after it.
#
#     seen       a b c | d e
#     predicts   1 1 0 | 1 0
#     words      0 1 -1 | 2 -1       a row for each position that predicts, numbered in the text
#     targets    b c e               the subwords one further on
#
# Masked, where b and d are chosen, b becomes the mask token _ and d stays as it is:
#
#     seen       a _ c | d e
#     predicts   0 1 0 | 1 0
#     words      -1 0 -1 | 1 -1
#     targets    b d                 what was there
#
# In a second pass the text is read again, after the first, with other subwords chosen.


def encode_predicted(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    texts: Sequence[str],
    *,
    max_length: int,
    form: str,
    every: int = 1,
    rate: float = RATE,
    passes: int = 1,
    seed: int = 0,
) -> EncodedSplit:
    """Tokenise texts for language modelling, and say what is to be predicted where.

    Each text is cut into blocks that follow each other without overlap; the tokenizer's special
    tokens are put around every block. A text without subwords has no block. Special tokens are
    neither predicted from nor masked.

    The ``words`` of the result are the predicting positions, each of one subword: a row of the
    split is a hidden state that is to predict the target in the same place. ``word_map`` is -1
    for all other subwords.

    Args:
        tokenizer: a fast tokenizer.
        ids: name of each text.
        texts: the running texts.
        max_length: most subwords of a block, special tokens included.
        form: ``masked``: hidden subwords are predicted from where they were.
            ``next``: a position predicts the subword after it.
        every: for ``next``: the k-th, 2k-th, 3k-th, ... subword of each block predict, save the
            block's last one, which has nothing after it.
        rate: for ``masked``: share of a block's subwords that is predicted.
        passes: for ``masked``: each text is read this often, with other subwords hidden. From two
            passes on, pass p of an example is named ``<id>#<p>``, from 0.
        seed: for ``masked``: of the choice; see ``_draws`` for what it depends on.

    Raises:
        BackboneError: the tokenizer is not fast, or has no mask token and ``form`` is ``masked``.
        DataError: a text is not valid Unicode.
        OptionError: ``max_length`` leaves no room.
    """
    assert len(ids) == len(texts), f"{len(ids)} ids for {len(texts)} texts"
    specials = learn_specials(tokenizer)
    check_limits(max_length, len(specials), "stride", least=2 if form == "next" else 1)
    vocabulary = learn_mask_vocabulary(tokenizer) if form == "masked" else None
    encodings = encode_portions(backend(tokenizer), ids, texts, ids_alone=True)
    once = Subwords.gather((encoding.ids, range(len(encoding.ids))) for encoding in encodings)
    content = _repeated(once, passes)
    blocks = _cut_blocks(content, max_length - len(specials))
    lengths = blocks.stop - blocks.start
    if vocabulary is None:
        seen, predicts = content.ids, _every_kth(lengths, every)
        targets = np.roll(content.ids, -1)[predicts]
    else:
        draws = _draws(ids, once.lengths, passes=passes, seed=seed)
        predicts = _choose(content.ids, lengths, draws[0], vocabulary=vocabulary, rate=rate)
        seen = _hide(content.ids, predicts, draws[1:], vocabulary)
        targets = content.ids[predicts]
    rows, n_rows = _number(predicts, content.bounds)
    read = Subwords(ids=seen, words=rows, bounds=content.bounds)
    names = ids if passes == 1 else [f"{name}#{p}" for name in ids for p in range(passes)]
    return assemble(read, blocks, specials, names, n_rows, targets=targets, cut={})


def _repeated(content: Subwords, passes: int) -> Subwords:
    """Return each example ``passes`` times, one after the other."""
    starts, lengths = (np.repeat(of, passes) for of in (content.bounds[:-1], content.lengths))
    source = ragged_arange(starts, lengths)
    return Subwords(ids=content.ids[source], words=content.words[source], bounds=bounds_of(lengths))


def _cut_blocks(content: Subwords, room: int) -> Windows:
    """Cut each example into blocks of ``room`` subwords; its last one may be shorter."""
    per_example = -(-content.lengths // room)
    offset = ragged_arange(np.zeros_like(per_example), per_example) * room
    start = np.repeat(content.bounds[:-1], per_example) + offset
    stop = np.minimum(start + room, np.repeat(content.bounds[1:], per_example))
    return Windows(start=start, stop=stop, per_example=per_example)


def _number(
    predicts: Bool[np.ndarray, " subwords"], bounds: Int64[np.ndarray, " bounds"]
) -> tuple[Int32[np.ndarray, " subwords"], Int64[np.ndarray, " examples"]]:
    """Return the row within its example of each predicting subword, else -1; and their numbers."""
    n_rows = np.diff(bounds_of(predicts.astype(np.int64))[bounds])
    rows = np.full(len(predicts), -1, np.int32)
    rows[predicts] = ragged_arange(np.zeros_like(n_rows), n_rows)
    return rows, n_rows


def _every_kth(lengths: Int64[np.ndarray, " blocks"], every: int) -> Bool[np.ndarray, " subwords"]:
    """Choose the k-th, 2k-th, ... subword of each block, save its last one."""
    position = ragged_arange(np.ones_like(lengths), lengths)
    return (position % every == 0) & (position < np.repeat(lengths, lengths))


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
        raise BackboneError(f"tokenizer {name!r} has only special tokens: nothing to predict.")
    return MaskVocabulary(mask=tokenizer.mask_token_id, specials=specials, ordinary=ordinary)


def _draws(
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


def _choose(
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


def _hide(
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
