"""The demo-ner corpus is well-formed, varied, and asks for context rather than for a word list."""

from collections import defaultdict
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

CORPUS = Path(__file__).resolve().parents[2] / "probekit" / "tasks" / "corpora" / "demo"
SIZES = {"train": 450, "dev": 150}
TYPES = ("PER", "LOC", "ORG", "MISC")


class Sentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]


def parse(text: str) -> list[Sentence]:
    sentences = []
    for block in text.removesuffix("\n").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n")]
        sentences.append(Sentence(*map(tuple, zip(*rows, strict=True))))
    return sentences


def pieces(sentence: Sentence) -> list[tuple[str, str]]:
    """Words outside names as (word, "O"), whole names as (name, type), in order."""
    out: list[tuple[str, str]] = []
    for word, tag in zip(sentence.words, sentence.tags, strict=True):
        if tag.startswith("I-"):
            out[-1] = (f"{out[-1][0]} {word}", out[-1][1])
        else:
            out.append((word, tag.removeprefix("B-")))
    return out


def names(sentence: Sentence) -> list[tuple[str, str]]:
    return [(text, kind) for text, kind in pieces(sentence) if kind != "O"]


def skeleton(sentence: Sentence, *, typed: bool) -> tuple[str, ...]:
    return tuple(
        text.lower() if kind == "O" else f"<{kind if typed else 'NAME'}>"
        for text, kind in pieces(sentence)
    )


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Sentence]]:
    return {name: parse((CORPUS / f"{name}.conll").read_text("utf-8")) for name in SIZES}


@pytest.fixture(scope="module")
def sentences(corpus) -> list[Sentence]:
    return list(chain.from_iterable(corpus.values()))


@pytest.mark.parametrize("split", SIZES)
def test_file_format(split):
    raw = (CORPUS / f"{split}.conll").read_bytes()
    assert b"\r" not in raw
    assert raw.endswith(b"\n") and not raw.endswith(b"\n\n")
    assert not raw.startswith(b"\n") and b"\n\n\n" not in raw
    for line in filter(None, raw.decode("utf-8").split("\n")):
        word, tag = line.split("\t")
        assert word and tag and not any(map(str.isspace, word + tag)), line


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_sentence_counts(corpus, split, size):
    assert len(corpus[split]) == size


def test_tags_are_valid_bio_over_four_types(sentences):
    allowed = {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in TYPES)}
    assert {tag for s in sentences for tag in s.tags} == allowed
    for s in sentences:
        for before, tag in pairwise(("O", *s.tags)):
            if tag.startswith("I-"):
                assert before[1:] == tag[1:], f"{before} -> {tag} in: {' '.join(s.words)}"


@pytest.mark.parametrize("typed", [True, False], ids=["by type", "one symbol"])
def test_no_two_sentences_share_a_skeleton(sentences, typed):
    found = defaultdict(list)
    for s in sentences:
        found[skeleton(s, typed=typed)].append(" ".join(s.words))
    assert [texts for texts in found.values() if len(texts) > 1] == []


def test_train_and_dev_share_no_sentence(corpus):
    train, dev = ({" ".join(s.words).lower() for s in corpus[name]} for name in SIZES)
    assert train & dev == set()


def test_thirty_names_need_context(sentences):
    labels = defaultdict(set)
    for name, kind in chain.from_iterable(map(names, sentences)):
        labels[name].add(kind)
    assert sum(len(kinds) > 1 for kinds in labels.values()) >= 30


def test_dev_has_known_and_unseen_names_of_every_type(corpus):
    train, dev = ({n for s in corpus[name] for n in names(s)} for name in SIZES)
    known = {name for name, _ in train}
    assert {kind for _, kind in dev & train} == set(TYPES)
    assert {kind for name, kind in dev if name not in known} == set(TYPES)


@pytest.mark.parametrize("split", SIZES)
def test_a_tenth_of_the_sentences_has_no_name(corpus, split):
    share = sum(not names(s) for s in corpus[split]) / len(corpus[split])
    assert 0.10 <= share <= 0.15


@pytest.mark.parametrize("split", SIZES)
def test_lengths_spread_from_short_to_long(corpus, split):
    lengths = [len(s.words) for s in corpus[split]]
    assert sum(n <= 5 for n in lengths) >= 10
    assert sum(n >= 30 for n in lengths) >= 10


def test_multiword_adjacent_and_non_ascii_names_occur(sentences):
    spans = [pieces(s) for s in sentences]
    assert any(" " in name for s in sentences for name, _ in names(s))
    assert any(not name.isascii() for s in sentences for name, _ in names(s))
    assert any(a != "O" != b for row in spans for (_, a), (_, b) in pairwise(row))
