"""The published files of sentences, pairs and running text, against their publishers' counts."""

from collections import Counter

import pytest

from probekit.tasks import Split
from tests.tasks.own_files import get_task
from tests.tasks.real_files import DATA, read


def classes(split: Split, column: str = "label") -> Counter[str]:
    return Counter(label for (label,) in split.labels[column])


# Wang et al. (2019), table 1.
@pytest.mark.parametrize(
    ("name", "folder", "split", "examples"),
    [
        ("cola", "CoLA", "train", 8_551),
        ("cola", "CoLA", "dev", 1_043),
        ("cola", "CoLA", "test", 1_063),
        ("sst2", "SST-2", "train", 67_349),
        ("sst2", "SST-2", "dev", 872),
        ("mrpc", "MRPC", "train", 3_668),
        ("mrpc", "MRPC", "dev", 408),
        ("mrpc", "MRPC", "test", 1_725),
        ("stsb", "STS-B", "train", 5_749),
        ("stsb", "STS-B", "dev", 1_500),
        ("stsb", "STS-B", "test", 1_379),
        ("rte", "RTE", "train", 2_490),
        ("rte", "RTE", "dev", 277),
        ("rte", "RTE", "test", 3_000),
    ],
)
def test_glue(name: str, folder: str, split: str, examples: int) -> None:
    found = read(f"glue/{name}", f"glue/{folder}", split)
    assert len(found.examples) == examples
    assert (split == "test") == (found.labels == {})
    pairs = name not in ("cola", "sst2")
    assert all((example.text_pair is not None) == pairs for example in found.examples)


@pytest.mark.parametrize(
    ("name", "folder", "counts"),
    [
        ("cola", "CoLA", {"0": 322, "1": 721}),
        ("sst2", "SST-2", {"0": 428, "1": 444}),
        ("mrpc", "MRPC", {"0": 129, "1": 279}),
        ("rte", "RTE", {"entailment": 146, "not_entailment": 131}),
    ],
)
def test_glue_dev_classes(name: str, folder: str, counts: dict[str, int]) -> None:
    found = read(f"glue/{name}", f"glue/{folder}", "dev")
    assert classes(found) == counts
    parent = get_task(f"glue/{name}").read("dev", DATA / "glue")
    assert parent.text_fingerprint() == found.text_fingerprint()


def test_stsb_scores_lie_in_their_range() -> None:
    scores = [float(label) for label in classes(read("glue/stsb", "glue/STS-B", "train"))]
    assert (min(scores), max(scores)) == (0.0, 5.0)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_atis_intents(split: str) -> None:
    found = read("atis", "atis", split)
    raw = (DATA / "atis" / split / "label").read_text().splitlines()
    assert [label for (label,) in found.labels["intent"]] == raw
    assert any("#" in label for label in classes(found, "intent"))


@pytest.mark.parametrize(
    ("folder", "split", "words"),
    [
        ("wikitext2", "dev", 213_886),
        ("wikitext2", "test", 241_211),
        ("wikitext2/raw", "test", 241_211),
    ],
)
def test_wikitext(folder: str, split: str, words: int) -> None:
    found = read("wikitext2", folder, split)
    # 60 articles each, and every token of the file in one of them.
    assert len(found.examples) == 60
    assert sum(len((example.text or "").split()) for example in found.examples) == words


@pytest.mark.parametrize(
    ("name", "folder", "kind", "text", "label"),
    [
        ("rte", "RTE", "pair", None, None),
        ("sst2", "SST-2/dev.tsv", "sentence", None, None),
        ("stsb", "STS-B", "regression", None, "score"),
        ("mrpc", "MRPC", "pair", "#1 String,#2 String", "Quality"),
    ],
)
def test_glue_files_read_as_the_users_own(
    name: str, folder: str, kind: str, text: str | None, label: str | None
) -> None:
    published = read(f"glue/{name}", f"glue/{folder.partition('/')[0]}", "dev")
    own = get_task(str(DATA / "glue" / folder), kind=kind, text=text, label=label)
    found = own.read("dev")
    assert found.text_fingerprint() == published.text_fingerprint()
    (rows,) = found.labels.values()
    if kind == "regression":
        assert [float(row[0]) for row in rows] == pytest.approx(
            [float(row[0]) for row in published.labels["label"]], rel=1e-7
        )
    else:
        assert rows == published.labels["label"]
    if "test" in own.splits:
        assert own.read("test").labels == {}
