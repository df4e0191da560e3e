"""The worked examples in the comments of the code are what the code does."""

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from probekit.data.batches import token_batches
from probekit.data.encoded import Specials, Subwords
from probekit.data.pooling import row_sources
from probekit.data.predicted import encode_predicted
from probekit.data.texts import encode_pairs
from probekit.data.windows import Cut, encode_content, stride, truncate

NAMES = dict(enumerate("[]abcd~ef"))
NUMBERS = {name: number for number, name in NAMES.items()}


@pytest.fixture(scope="module")
def split():
    """The sentences a b and c dd e f in windows of four subwords between special tokens."""
    content = Subwords.gather(
        ([NUMBERS[name] for name in names], words)
        for names, words in (("ab", (0, 1)), ("cd~ef", (0, 1, 1, 2, 3)))
    )
    return encode_content(
        content,
        Specials((NUMBERS["["],), (NUMBERS["]"],)),
        ("1", "2"),
        max_length=6,
        overlong="stride",
        n_words=np.array([2, 4]),
    )


def test_assembly(split):
    assert "".join(NAMES[number] for number in split.subwords) == "[ab][cd~e][ef]"
    assert split.word_map.tolist() == [-1, 0, 1, -1, -1, 0, 1, 1, 2, -1, -1, 2, 3, -1]
    assert split.window_lengths.tolist() == [4, 6, 4]
    assert split.example_windows.tolist() == [0, 1, 3]
    assert split.example_words.tolist() == [0, 2, 6]
    assert split.word_places.window.tolist() == [0, 0, 1, 1, 1, 2]
    assert split.word_places.first.tolist() == [1, 2, 1, 2, 4, 2]
    assert split.word_places.last.tolist() == [1, 2, 1, 3, 4, 2]
    assert split.averaged.astype(int).tolist() == [1] * 9 + [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("array", "pooling", "expected"),
    [
        ("words", "mean", [[1], [2], [1], [2, 3], [4], [8]]),
        ("words", "last", [[1], [2], [1], [3], [4], [8]]),
        ("cls", "first", [[0], [0]]),
        ("last", "first", [[3], [9]]),
        ("mean", "first", [[0, 1, 2, 3], [0, 1, 2, 3, 4, 8, 9]]),
    ],
)
def test_places(split, array, pooling, expected):
    found = row_sources(split, array, pooling)
    assert [run.tolist() for run in np.split(found.values, found.bounds[1:-1])] == expected


def test_token_batch(split):
    arrays = ("words", "tokens", "cls", "last", "mean")
    options = {"batch_tokens": 18, "pad_id": 0, "arrays": arrays}
    first, second = token_batches(split, 0, 2, pooling="first", **options)
    assert [batch.lengths.tolist() for batch in (first, second)] == [[6], [4, 4]]

    def picked(batch, array):
        picks = batch.picks[array]
        return picks.source.tolist(), picks.target.tolist()

    assert picked(first, "words") == ([1, 2, 4], [2, 3, 4])
    assert picked(second, "words") == ([1, 2, 6], [0, 1, 5])
    assert picked(first, "tokens") == ([*range(6)], [*range(4, 10)])
    assert picked(second, "tokens") == ([*range(8)], [0, 1, 2, 3, 10, 11, 12, 13])
    assert picked(first, "cls") == ([0], [1]) and picked(second, "cls") == ([0], [0])
    assert picked(first, "last") == ([], []) and picked(second, "last") == ([3, 7], [0, 1])
    assert picked(first, "mean") == ([0, 1, 2, 3, 4], [1])
    assert picked(second, "mean") == ([0, 1, 2, 3, 6, 7], [0, 1])
    shares = [(b.picks["mean"].counts.tolist(), b.picks["mean"].totals.tolist())
              for b in (first, second)]  # fmt: skip
    assert shares == [([5], [7]), ([4, 2], [4, 7])]
    first, second = token_batches(split, 0, 2, pooling="mean", **options)
    assert first.picks["words"].source.tolist() == [1, 2, 3, 4]
    assert first.picks["words"].counts.tolist() == [1, 2, 1]
    assert second.picks["words"].source.tolist() == [1, 2, 6]
    assert second.picks["words"].counts.tolist() == [1, 1, 1]


def test_windows():
    bounds = np.arange(9)
    assert stride(bounds, 4) == Cut(((0, 4), (3, 7), (6, 8)), 0)
    assert truncate(bounds, 4) == Cut(((0, 4),), 4)
    bounds = np.array([0, 1, 2, 3, 4, 10, 11])
    assert stride(bounds, 4) == Cut(((0, 4), (4, 8), (10, 11)), 1)


def test_predicted():
    inner = Tokenizer(WordLevel({**NUMBERS, "_": 9}, unk_token="~"))
    inner.pre_tokenizer = Split(Regex(r"\w"), "isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=inner, mask_token="_")
    split = encode_predicted(made, ["1"], ["abcde"], max_length=3, form="next")
    assert split.window_lengths.tolist() == [3, 2]
    assert split.word_map.tolist() == [0, 1, -1, 2, -1]
    assert [NAMES[number] for number in split.targets] == ["b", "c", "e"]


def test_pairs_of_lines():
    letters = {name: number for number, name in enumerate(" \nabcdef")}
    inner = Tokenizer(WordLevel(letters, unk_token=" "))
    inner.pre_tokenizer = Split(Regex(r"\n|\w"), "isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=inner)
    split = encode_pairs(made, ["1"], [("abc", "def")], max_length=5)
    assert [" \nabcdef"[number] for number in split.subwords] == ["a", "b", "\n", "d", "e"]
