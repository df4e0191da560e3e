"""GLUE from the local Hub: the same texts and labels as from the published tables."""

import pytest

from probekit.errors import HubError
from probekit.tasks import get_task
from probekit.tasks.corpora.glue import GLUE, glue
from tests.tasks.hub_repos import write_card, write_config
from tests.tasks.own_files import write
from tests.tasks.test_glue import HEADERS

# As nyu-mll/glue names them, by number.
NAMES = {
    "cola": ("unacceptable", "acceptable"), "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"), "qqp": ("not_duplicate", "duplicate"),
    "mnli": ("entailment", "neutral", "contradiction"), "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}  # fmt: skip
SCORES = (3.8, 0.0, 4.57142857142857)
FIRST, SECOND = ["One ", '"Two', "Tres\xa0"], ["Un", "Deux", "Trois"]


def hub_split(name: str, labels: list[float]) -> dict[str, list[object]]:
    """Rows as the Hub has them."""
    texts = dict(zip(GLUE[name].hub_texts or GLUE[name].texts, (FIRST, SECOND), strict=False))
    return {**texts, "label": labels, "idx": [0, 1, 2]}  # type: ignore[dict-item]


def published(name: str, labels: list[str]) -> str:
    """The same rows as the published table has them."""
    about = GLUE[name]
    header = HEADERS[name].split("\t") if name in HEADERS else list(about.headless)
    lines = ["\t".join(header)] if name in HEADERS else []
    for first, second, label in zip(FIRST, SECOND, labels, strict=True):
        known = dict(zip(about.texts, (first, second), strict=False)) | {about.label: label}
        lines.append("\t".join(known.get(column, "x") for column in header))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", GLUE)
def test_labels_equal_those_of_the_published_files(serve, name: str, tmp_path) -> None:
    classes = NAMES.get(name, ())
    numbers = [len(classes) - 1, 0, 1] if classes else list(SCORES)
    written = [classes[int(n)] for n in numbers] if classes else [str(n) for n in numbers]
    if name in ("cola", "sst2", "mrpc", "qqp"):
        written = [str(n) for n in numbers]
    about = glue(name)
    splits = {GLUE[name].hub_splits[s]: hub_split(name, numbers) for s in about.splits}
    blind = GLUE[name].hub_splits["test"]
    splits[blind] = hub_split(name, [-1, -1, -1])
    repo = write_config(tmp_path / "repo", name, splits, classes)
    write_card(repo, {name: list(splits)})
    for file in (names[0] for names in GLUE[name].files.values()):
        write(tmp_path / "data" / file, published(name, written))
    with serve({"datasets/nyu-mll/glue": repo}):
        for split in about.splits:
            online = about.read(split, None)
            if split == "test":
                assert online.labels == {}
                continue
            offline = about.read(split, tmp_path / "data")
            assert online.examples == offline.examples
            assert online.labels == offline.labels
            assert online.labels_fingerprint("label") == offline.labels_fingerprint("label")
            assert online.text_fingerprint() == offline.text_fingerprint()
            assert online.origin.startswith("hub:nyu-mll/glue@")
            assert online.origin.endswith(f" ({name})")


def test_some_rows_without_a_label(serve, tmp_path) -> None:
    rows = {"train": hub_split("rte", [0, -1, 1])}
    repo = write_config(tmp_path / "repo", "rte", rows, NAMES["rte"])
    write_card(repo, {"rte": ["train"]})
    with (
        serve({"datasets/nyu-mll/glue": repo}),
        pytest.raises(HubError, match="None in column 'label' is not a label"),
    ):
        get_task("glue/rte").read("train", None)


def test_a_repository_that_lost_the_names(serve, tmp_path) -> None:
    columns = hub_split("cola", [1, 0, 1])
    columns["label"] = [1, 0, 1]
    repo = write_config(tmp_path / "repo", "cola", {"train": {**columns}}, ())
    import pyarrow as pa
    import pyarrow.parquet as pq

    (path,) = repo.rglob("*.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "label", pa.array([1, 0, 1])), path)
    write_card(repo, {"cola": ["train"]})
    with serve({"datasets/nyu-mll/glue": repo}):
        assert get_task("glue/cola").read("train", None).labels["label"] == (("1",), ("0",), ("1",))
