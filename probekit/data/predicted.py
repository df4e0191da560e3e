"""Texts for language modelling: blocks of subwords, and the positions that predict one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from jaxtyping import Bool, Int32, Int64
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from probekit.base.numbers.ragged import bounds_of, ragged_arange
from probekit.data.alignment import backend, learn_specials
from probekit.data.encoded import EncodedSplit
from probekit.data.masking import RATE, choose, learn_mask_vocabulary, mask_draws, replace
from probekit.data.subwords import Specials
from probekit.data.texts import refuse_broken
from probekit.errors import OptionError

FORMS = ("masked", "next")
# Encodings take some 100 bytes per subword; texts of this size together stay below 200 MB.
_CHARACTERS_PER_CALL = 4_000_000


def encode_predicted(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[str],
    texts: Sequence[str],
    *,
    max_length: int,
    form: str,
    every: int = 1,
    mask_rate: float = RATE,
    passes: int = 1,
    seed: int = 0,
) -> tuple[EncodedSplit, Int32[np.ndarray, " rows"]]:
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
        form: ``masked``: hidden subwords are predicted from where they were (``masking``).
            ``next``: a position predicts the subword after it.
        every: for ``next``: the k-th, 2k-th, 3k-th, ... subword of each block predict, save the
            block's last one, which has nothing after it.
        mask_rate: for ``masked``: share of a block's subwords that is predicted.
        passes: for ``masked``: each text is read this often, with other subwords hidden. From two
            passes on, pass p of an example is named ``<id>#<p>``, from 0.
        seed: for ``masked``: of the choice; see ``masking.mask_draws`` for what it depends on.

    Returns:
        The split, and the vocabulary id that each of its rows is to predict.

    Raises:
        BackboneError: the tokenizer is not fast, or has no mask token and ``form`` is ``masked``.
        DataError: a text is not valid Unicode.
        OptionError: an option out of its range; ``max_length`` leaves no room.
    """
    assert len(ids) == len(texts), f"{len(ids)} ids for {len(texts)} texts"
    specials = learn_specials(tokenizer)
    room = max_length - len(specials)
    _check_options(form, every=every, mask_rate=mask_rate, passes=passes)
    _check_room(room, max_length, specials, form)
    vocabulary = learn_mask_vocabulary(tokenizer) if form == "masked" else None
    content, lengths = _tokenize(backend(tokenizer), ids, texts)
    blocks = _cut(content, lengths, room=room, passes=passes)
    if vocabulary is None:
        targets = np.roll(blocks.content, -1)
        predicts, seen = blocks.every_kth(every), blocks.content
    else:
        draws = mask_draws(ids, lengths, passes=passes, seed=seed)
        targets = blocks.content
        predicts = choose(targets, blocks.lengths, draws[0], vocabulary=vocabulary, rate=mask_rate)
        seen = replace(targets, predicts, draws[1:], vocabulary)
    split = _assemble(_names(ids, passes), blocks, seen, predicts, specials)
    return split, targets[predicts]


def _check_options(form: str, *, every: int, mask_rate: float, passes: int) -> None:
    if form not in FORMS:
        raise OptionError(f"the form {form!r} is none of: {', '.join(FORMS)}.")
    if every < 1:
        raise OptionError(f"--every {every}: give 1 (every position) or more.")
    if not 0 < mask_rate <= 1:
        raise OptionError(f"the mask rate {mask_rate} is not a share; give a number in (0, 1].")
    if passes < 1:
        raise OptionError(f"--passes {passes}: give 1 or more.")
    if passes > 1 and form == "next":
        raise OptionError(
            f"--passes {passes} draws other masks in each pass, and next-token prediction masks "
            "nothing. Leave it out."
        )


def _check_room(room: int, max_length: int, specials: Specials, form: str) -> None:
    least = 2 if form == "next" else 1
    if room < least:
        raise OptionError(
            f"--max-length {max_length} leaves no room for text beside the tokenizer's "
            f"{len(specials)} special tokens; give at least {len(specials) + least}."
        )


def _names(ids: Sequence[str], passes: int) -> tuple[str, ...]:
    if passes == 1:
        return tuple(ids)
    return tuple(f"{name}#{number}" for name in ids for number in range(passes))


def _tokenize(
    inner: Tokenizer, ids: Sequence[str], texts: Sequence[str]
) -> tuple[Int32[np.ndarray, " subwords"], Int64[np.ndarray, " examples"]]:
    """Return the subwords of all texts, without special tokens, and how many each text has."""
    pieces: list[Int32[np.ndarray, " n"]] = [np.empty(0, np.int32)]
    lengths: list[int] = []
    for part in _portions(texts):
        try:
            found = inner.encode_batch_fast(texts[part], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            refuse_broken(ids, texts, error)
            raise
        numbers = [encoding.ids for encoding in found]
        pieces.append(np.fromiter(chain.from_iterable(numbers), np.int32))
        lengths.extend(map(len, numbers))
    return np.concatenate(pieces), np.array(lengths, np.int64)


def _portions(texts: Sequence[str]) -> Iterator[slice]:
    """Cut a run of texts into runs that are not much longer than ``_CHARACTERS_PER_CALL``."""
    call = np.cumsum([len(text) for text in texts]) // _CHARACTERS_PER_CALL
    edges = [0, *(np.flatnonzero(np.diff(call)) + 1).tolist(), len(texts)]
    return (slice(start, stop) for start, stop in pairwise(edges))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Blocks:
    """The blocks of all examples, one after the other, without special tokens."""

    content: Int32[np.ndarray, " subwords"]
    lengths: Int64[np.ndarray, " blocks"]
    per_example: Int64[np.ndarray, " examples"]

    @property
    def place(self) -> Int64[np.ndarray, " subwords"]:
        """Where each subword lies in its block, from 0."""
        return ragged_arange(np.zeros_like(self.lengths), self.lengths)

    def every_kth(self, every: int) -> Bool[np.ndarray, " subwords"]:
        place = self.place + 1
        return (place % every == 0) & (place < np.repeat(self.lengths, self.lengths))


def _cut(
    content: Int32[np.ndarray, " subwords"],
    lengths: Int64[np.ndarray, " examples"],
    *,
    room: int,
    passes: int,
) -> _Blocks:
    """Cut each example's subwords, read ``passes`` times, into blocks of at most ``room``."""
    starts, sizes = (np.repeat(of, passes) for of in (bounds_of(lengths)[:-1], lengths))
    per_example = -(-sizes // room)
    offset = ragged_arange(np.zeros_like(per_example), per_example) * room
    return _Blocks(
        content=content[ragged_arange(starts, sizes)],
        lengths=np.minimum(np.repeat(sizes, per_example) - offset, room),
        per_example=per_example,
    )


def _assemble(
    ids: tuple[str, ...],
    blocks: _Blocks,
    seen: Int32[np.ndarray, " subwords"],
    predicts: Bool[np.ndarray, " subwords"],
    specials: Specials,
) -> EncodedSplit:
    lengths = (blocks.lengths + len(specials)).astype(np.int32)
    bounds = bounds_of(lengths)
    place = ragged_arange(bounds[:-1] + len(specials.prefix), blocks.lengths)
    subwords = np.empty(bounds[-1], np.int32)
    subwords[place] = seen
    around = (*enumerate(specials.prefix), *enumerate(specials.suffix, -len(specials.suffix)))
    for offset, special in around:
        subwords[(bounds[:-1] if offset >= 0 else bounds[1:]) + offset] = special
    window = np.repeat(np.arange(len(lengths)), blocks.lengths)[predicts].astype(np.int32)
    example = np.repeat(np.arange(len(ids)), blocks.per_example)[window]
    rows = np.bincount(example, minlength=len(ids))
    word_map = np.full(bounds[-1], -1, np.int32)
    word_map[place[predicts]] = ragged_arange(np.zeros_like(rows), rows)
    position = (blocks.place[predicts] + len(specials.prefix)).astype(np.int32)
    return EncodedSplit(
        ids=ids,
        subwords=subwords,
        word_map=word_map,
        window_lengths=lengths,
        example_windows=bounds_of(blocks.per_example),
        example_words=bounds_of(rows),
        word_window=window,
        word_first=position,
        word_last=position.copy(),
        truncated_words=0,
    )
