"""The published files themselves, against the counts that their publishers give."""

import pytest

from probekit.tasks import Split
from tests.tasks.own_files import get_task
from tests.tasks.real_files import DATA, read


def n_words(split: Split) -> int:
    return sum(len(example.words) for example in split.examples)


def n_entities(split: Split, column: str) -> int:
    return sum(tag.startswith("B-") for tags in split.labels[column] for tag in tags)


# Tjong Kim Sang and De Meulder (2003), tables 1 and 2.
@pytest.mark.parametrize(
    ("split", "sentences", "words", "entities"),
    [
        ("train", 14_041, 203_621, 23_499),
        ("dev", 3_250, 51_362, 5_942),
        ("test", 3_453, 46_435, 5_648),
    ],
)
def test_conll(split: str, sentences: int, words: int, entities: int) -> None:
    found = read("conll", "conll2003", split)
    assert len(found.examples) == sentences
    assert n_words(found) == words
    assert n_entities(found, "ner") == entities
    assert set(found.labels) == {"ner", "pos", "chunk"}
    kinds = {tag[2:] for tags in found.labels["ner"] for tag in tags if tag != "O"}
    assert kinds == {"PER", "LOC", "ORG", "MISC"}
    assert all("-DOCSTART-" not in example.words for example in found.examples)


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize(("split", "sentences"), [("train", 20_000), ("dev", 10_000)])
def test_wikiann(language: str, split: str, sentences: int) -> None:
    found = read(f"wikiann/{language}", f"wikiann/{language}", split)
    assert len(found.examples) == sentences
    tags = {tag for row in found.labels["ner"] for tag in row}
    assert tags == {"O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"}


@pytest.mark.parametrize(
    ("split", "sentences", "words"),
    [("train", 12_544, 204_577), ("dev", 2_001, 25_147), ("test", 2_077, 25_094)],
)
def test_ud_english_ewt(split: str, sentences: int, words: int) -> None:
    found = read("ud/en_ewt", "ud_english_ewt", split)
    assert len(found.examples) == sentences
    assert n_words(found) == words
    # The 17 universal parts of speech.
    assert len({tag for tags in found.labels["upos"] for tag in tags}) == 17
    assert not found.examples[0].id.startswith(split)


@pytest.mark.parametrize(("split", "utterances"), [("train", 4_478), ("dev", 500), ("test", 893)])
def test_atis(split: str, utterances: int) -> None:
    found = read("atis", "atis", split)
    assert len(found.examples) == utterances


def test_atis_train_tags_are_the_published_ones() -> None:
    tags = {tag for row in read("atis", "atis", "train").labels["slots"] for tag in row}
    published = (DATA / "atis" / "slot_label.txt").read_text().split("\n")
    assert tags < set(published)


def test_a_published_folder_read_as_the_users_own() -> None:
    published = read("ud/en_ewt", "ud_english_ewt", "dev")
    own = get_task(str(DATA / "ud_english_ewt"), label="upos").read("dev")
    assert own.text_fingerprint() == published.text_fingerprint()
    assert own.labels_fingerprint("upos") == published.labels_fingerprint("upos")
