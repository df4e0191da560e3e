"""The published files themselves, against the counts that their publishers give."""

from collections import Counter

import pytest

from probekit.tasks import Split
from tests.tasks.own_files import get_task, words
from tests.tasks.real_files import DATA, read


def classes(split: Split, column: str = "label") -> Counter[str]:
    return Counter(label for row in split.labels[column] for label in row)


# Tjong Kim Sang and De Meulder (2003), tables 1 and 2; Wang et al. (2019), table 1; READMEs.
@pytest.mark.parametrize(
    ("task", "folder", "split", "examples", "n_words"),
    [
        ("conll", "conll2003", "dev", 3_250, 51_362),
        ("wikiann/de", "wikiann/de", "dev", 10_000, None),
        ("ud/en_ewt", "ud_english_ewt", "dev", 2_001, 25_147),
        ("atis", "atis", "train", 4_478, None),
        ("glue/cola", "glue/CoLA", "test", 1_063, None),
        ("glue/sst2", "glue/SST-2", "dev", 872, None),
        ("glue/mrpc", "glue/MRPC", "train", 3_668, None),
        ("glue/mrpc", "glue/MRPC", "test", 1_725, None),
        ("glue/stsb", "glue/STS-B", "dev", 1_500, None),
        ("glue/rte", "glue/RTE", "train", 2_490, None),
        ("glue/rte", "glue/RTE", "test", 3_000, None),
        # 60 articles each, and every token of the file in one of them
        ("wikitext2", "wikitext2", "test", 60, 241_211),
        ("wikitext2", "wikitext2/raw", "test", 60, 241_211),
    ],
)
def test_sizes(task: str, folder: str, split: str, examples: int, n_words: int | None) -> None:
    found = read(task, folder, split)
    assert len(found.examples) == examples
    if n_words is not None:
        counts = (len(one.words) or len((one.text or "").split()) for one in found.examples)
        assert sum(counts) == n_words
    if task.startswith("glue/"):
        assert (split == "test") == (found.labels == {})
        pairs = task not in ("glue/cola", "glue/sst2")
        assert all((example.text_pair is not None) == pairs for example in found.examples)


@pytest.mark.parametrize(
    ("task", "folder", "column", "counts"),
    [
        ("glue/cola", "glue/CoLA", "label", {"0": 322, "1": 721}),
        ("glue/sst2", "glue/SST-2", "label", {"0": 428, "1": 444}),
        ("glue/mrpc", "glue/MRPC", "label", {"0": 129, "1": 279}),
        ("glue/rte", "glue/RTE", "label", {"entailment": 146, "not_entailment": 131}),
        ("conll", "conll2003", "ner", {"B-PER": 1842, "B-LOC": 1837, "B-ORG": 1341, "B-MISC": 922}),
    ],
)
def test_classes_of_dev(task: str, folder: str, column: str, counts: dict[str, int]) -> None:
    found = read(task, folder, "dev")
    told = classes(found, column)
    assert {name: n for name, n in told.items() if name[:2] != "I-" and name != "O"} == counts
    if task.startswith("glue/"):  # the folder of all tasks will do
        parent = get_task(task).read("dev", DATA / "glue")
        assert parent.text_fingerprint() == found.text_fingerprint()


def test_labels() -> None:
    assert set(read("conll", "conll2003", "dev").labels) == {"ner", "pos", "chunk"}
    assert len(classes(read("ud/en_ewt", "ud_english_ewt", "dev"), "upos")) == 17
    scores = [float(label) for label in classes(read("glue/stsb", "glue/STS-B", "dev"))]
    assert (min(scores), max(scores)) == (0.0, 5.0)
    names = {f"{mark}-{name}" for name in ("PER", "ORG", "LOC") for mark in "BI"}
    assert classes(read("wikiann/de", "wikiann/de", "dev"), "ner").keys() == names | {"O"}
    atis = read("atis", "atis", "train")
    published = (DATA / "atis" / "slot_label.txt").read_text().split("\n")
    assert classes(atis, "slots").keys() < set(published)
    raw = (DATA / "atis" / "train" / "label").read_text().splitlines()
    assert [label for (label,) in atis.labels["intent"]] == raw


@pytest.mark.parametrize(
    ("task", "folder", "options"),
    [
        ("glue/rte", "glue/RTE", {"kind": "pair"}),
        ("glue/stsb", "glue/STS-B", {"kind": "regression", "label": "score"}),
        (
            "glue/mrpc",
            "glue/MRPC",
            {"kind": "pair", "text": "#1 String,#2 String", "label": "Quality"},
        ),
    ],
)
def test_published_files_read_as_the_users_own(task, folder: str, options) -> None:
    published = read(task, folder, "dev")
    own = get_task(str(DATA / folder), **options).read("dev")
    assert own.text_fingerprint() == published.text_fingerprint()
    assert words(own) == words(published)
    (rows,), expected = own.labels.values(), next(iter(published.labels.values()))
    if options.get("kind") == "regression":
        numbers = ([float(score) for (score,) in labels] for labels in (rows, expected))
        assert next(numbers) == pytest.approx(next(numbers), rel=1e-7)
    else:
        assert rows == expected
