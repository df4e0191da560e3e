"""The demo-ner corpus is well-formed, and asks for context rather than for a word list."""

from collections import defaultdict
from itertools import chain, pairwise
from pathlib import Path

import pytest

from probekit.tasks import Split, get_task

CORPUS = Path(__file__).resolve().parents[2] / "probekit" / "tasks" / "corpora" / "demo"
SIZES = {"train": 450, "dev": 150}
TYPES = ("PER", "LOC", "ORG", "MISC")


def names(split: Split) -> list[tuple[str, str]]:
    """Whole names and their types, in order."""
    found: list[tuple[str, str]] = []
    for example, tags in zip(split.examples, split.labels["ner"], strict=True):
        for word, tag in zip(example.words, tags, strict=True):
            if tag.startswith("I-"):
                found[-1] = (f"{found[-1][0]} {word}", found[-1][1])
            elif tag != "O":
                found.append((word, tag.removeprefix("B-")))
    return found


@pytest.fixture(scope="module")
def corpus() -> dict[str, Split]:
    return {name: get_task("demo-ner").read(name) for name in SIZES}


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_file_format(corpus: dict[str, Split], split: str, size: int) -> None:
    raw = (CORPUS / f"{split}.conll").read_bytes()
    assert b"\r" not in raw and raw.endswith(b"\n")
    assert not raw.startswith(b"\n") and b"\n\n\n" not in raw and not raw.endswith(b"\n\n")
    for line in filter(None, raw.decode("utf-8").split("\n")):
        word, tag = line.split("\t")
        assert word and tag and not any(map(str.isspace, word + tag)), line
    assert len(corpus[split].examples) == size
    assert corpus[split].origin == f"{split}.conll in the package"
    own = get_task("demo-ner").read(split, CORPUS)
    assert own.text_fingerprint() == corpus[split].text_fingerprint()
    assert own.origin == f"{split}.conll in {CORPUS}"


def test_tags_are_valid_bio_over_four_types(corpus: dict[str, Split]) -> None:
    rows = [tags for split in corpus.values() for tags in split.labels["ner"]]
    assert {*chain(*rows)} == {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in TYPES)}
    for tags in rows:
        for before, tag in pairwise(("O", *tags)):
            assert not tag.startswith("I-") or before[1:] == tag[1:], tags


def test_names_need_context_and_dev_has_known_and_unseen_ones(corpus: dict[str, Split]) -> None:
    texts = [{one.words for one in split.examples} for split in corpus.values()]
    assert not texts[0] & texts[1]
    train, dev = (set(names(split)) for split in corpus.values())
    kinds = defaultdict(set)
    for name, kind in train | dev:
        kinds[name].add(kind)
    assert sum(len(found) > 1 for found in kinds.values()) >= 30
    known = {name for name, _ in train}
    assert {kind for _, kind in dev & train} == set(TYPES)
    assert {kind for name, kind in dev if name not in known} == set(TYPES)
