"""Side files of predictions: classes, sets, values and losses survive; others are refused."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.errors import MissingFileError, RecordError, StorageError
from probekit.metrics import ROW_SCORES
from probekit.results.comparison.pairing import _renamed
from probekit.results.predictions import About, Predicted, read_predicted, write_predicted

READING = Path(__file__).parent.parent.parent / "docs" / "reading.md"
ABOUT = About(key="ab" * 32, metric="span-f1", labels_fingerprint="cd" * 32, classes=("O", "B-é"))
OFFSETS = np.array([0, 2, 2, 5])
IDS = ("dev-0", "dev-1", "dev-2")
CLASSES = Predicted(
    ids=IDS,
    offsets=OFFSETS,
    content="classes",
    predicted=np.array([0, 1, 1, 0, 0]),
    gold=np.array([0, 2, 1, 0, 3]),
    names=("O", "B-é", "B-X", "I-X"),  # the last two are unseen in train
)
VALUES = Predicted(
    ids=IDS, offsets=OFFSETS, content="values", predicted=np.array([0.5, 1, 2, 3, -1], np.float32),
    gold=np.array([0.25, 1, 2, 3, 5]),
)  # fmt: skip
LOSSES = Predicted(
    ids=IDS, offsets=OFFSETS, content="losses", predicted=np.arange(5, dtype=np.float32), gold=None
)


def _row_scores(right, losses=None):
    random = np.random.default_rng(0)
    found = np.empty(len(right), ROW_SCORES)
    found["right"] = right
    for name in ("loss", "confidence", "brier"):
        found[name] = random.random(len(right))
    found["loss"][1] = np.nan  # a class that train did not have
    if losses is not None:
        found["loss"] = losses
    return found


def _probabilities(rows, kept):
    return np.random.default_rng(1).dirichlet(np.ones(kept), rows).astype(np.float16)


WORDS = (("EU", "rejects"), (), ("a", "é b", "c"))
WITH_PROBABILITIES = {
    "all classes": replace(
        CLASSES,
        groups=("a#1", "a#1", "a#2"),
        grouped_by="document",
        texts=WORDS,
        probabilities=_probabilities(5, 2),
        row_scores=_row_scores(CLASSES.predicted == CLASSES.gold),
    ),
    "the top classes": replace(
        CLASSES, texts=WORDS, kept=np.array([[0, 1], [1, 0], [1, 0], [0, 1], [0, 1]]),
        probabilities=_probabilities(5, 2),
        row_scores=_row_scores(CLASSES.predicted == CLASSES.gold),
    ),
    "tokens": replace(
        LOSSES, texts=("one text", "", "another\nof two lines"), gold=np.array([7, 5, 9, 9, 1]),
        kept=np.array([[7, 3], [2, 0], [5, 9], [9, 6], [8, 1]], np.int32),
        probabilities=_probabilities(5, 2),
        row_scores=_row_scores([True, False, False, True, False], LOSSES.predicted),
    ),
    "pairs": Predicted(
        ids=IDS, offsets=np.arange(4), content="values", predicted=np.ones(3), gold=np.arange(3.0),
        texts=(("a", "b"), ("c", ""), ("d", "e")),
    ),
}  # fmt: skip
ODDS = np.array([[1.5, -1], [-2, -0.5], [0.25, 3]], np.float32)
WITH_PROBABILITIES["sets"] = replace(
    WITH_PROBABILITIES["pairs"], content="sets", names=("O", "B-é", "new"),
    predicted=np.pad(ODDS > 0, ((0, 0), (0, 1))), odds=ODDS,
    gold=np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]], bool),
    probabilities=_probabilities(3, 2), row_scores=_row_scores([False, True, False]),
)  # fmt: skip
WITH_PROBABILITIES["sets without odds"] = replace(WITH_PROBABILITIES["sets"], odds=None)


every = pytest.mark.parametrize(
    "found",
    [CLASSES, VALUES, LOSSES, *WITH_PROBABILITIES.values()],
    ids=[*("classes", "values", "losses"), *WITH_PROBABILITIES],
)


def _same(one, two):
    assert (one.ids, one.content, one.names) == (two.ids, two.content, two.names)
    assert one.texts == two.texts
    assert (one.groups, one.grouped_by) == (two.groups, two.grouped_by)
    for name in ("offsets", "predicted", "gold", "kept", "probabilities", "odds"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    if one.probabilities is not None:
        assert one.probabilities.dtype == two.probabilities.dtype == np.float16
    assert (one.row_scores is None) == (two.row_scores is None)
    if one.row_scores is not None:
        assert one.row_scores.dtype == two.row_scores.dtype
        assert one.row_scores.tobytes() == two.row_scores.tobytes()


@every
def test_round_trip(tmp_path, found):
    path = tmp_path / "new" / "p.parquet"
    write_predicted(path, ABOUT, {"dev": found, "test": found})
    assert [file.name for file in path.parent.iterdir()] == ["p.parquet"]
    about, splits = read_predicted(path)
    assert about == ABOUT
    assert list(splits) == ["dev", "test"]
    for split in splits.values():
        _same(split, found)


@every
def test_what_is_not_asked_for_is_not_read(tmp_path, found):
    write_predicted(tmp_path / "p", ABOUT, {"dev": found})
    _same(read_predicted(tmp_path / "p", texts=False)[1]["dev"], replace(found, texts=()))
    plain = read_predicted(tmp_path / "p", texts=False, probabilities=False)[1]["dev"]
    if found.content == "losses":  # what was predicted is among them
        _same(plain, replace(found, texts=()))
    else:
        _same(plain, replace(found, texts=(), probabilities=None, kept=None, row_scores=None))


def test_an_item_is_shown_as_text():
    sets = WITH_PROBABILITIES["sets"]
    assert list(map(sets.label_text, sets.gold)) == ["O, B-é", "(none)", "new"]


def test_columns_are_names_that_people_can_read(tmp_path):
    write_predicted(tmp_path / "p", ABOUT, {"dev": CLASSES})
    rows = pq.read_table(tmp_path / "p").to_pylist()
    assert rows[0] == {
        "split": "dev", "id": "dev-0", "gold": ["O", "B-X"], "predicted": ["O", "B-é"],
    }  # fmt: skip
    assert rows[1]["gold"] == []


@pytest.mark.parametrize("name", ["all classes", "the top classes", "tokens", "pairs"])
def test_pandas_reads_it_as_the_documents_say(tmp_path, name):
    """A row per word, its probabilities in the order of the classes or of those kept."""
    found = WITH_PROBABILITIES[name]
    write_predicted(tmp_path / "p", ABOUT, {"dev": found})
    blocks = re.findall(r"```python\n(.*?)```", READING.read_text("utf-8"), re.DOTALL)
    (block,) = (one for one in blocks if "explode" in one)
    space = {"file": tmp_path / "p"}
    exec(compile(block, "reading.md", "exec"), space)
    rows = space["rows"].dropna(subset="loss" if name == "tokens" else "predicted")
    assert len(rows) == len(found.predicted) and space["classes"] == list(ABOUT.classes)
    if found.probabilities is not None:
        assert np.array_equal(np.stack(rows["probabilities"]), found.probabilities)
    if name == "all classes":
        assert rows["words"].tolist() == [word for words in WORDS for word in words]


def test_groups_of_some_splits_survive(tmp_path):
    grouped = replace(CLASSES, groups=("a#1", "a#1", "a#2"), grouped_by="document")
    write_predicted(tmp_path / "p", ABOUT, {"dev": CLASSES, "test": grouped})
    _, splits = read_predicted(tmp_path / "p")
    _same(splits["dev"], CLASSES)
    _same(splits["test"], grouped)
    assert pq.read_table(tmp_path / "p")["group"].to_pylist() == [None] * 3 + [*grouped.groups]


def test_groups_that_some_sentences_lack_are_refused(tmp_path):
    grouped = replace(CLASSES, groups=("a", "a", "b"), grouped_by="document")
    write_predicted(tmp_path / "p", ABOUT, {"dev": grouped})
    table = pq.read_table(tmp_path / "p")
    place = table.column_names.index("group")
    torn = table.set_column(place, "group", pa.array(["a", None, "b"]))
    for name, one in {"torn": torn, "nameless": table.replace_schema_metadata(None)}.items():
        pq.write_table(one, tmp_path / name)
        with pytest.raises(RecordError, match=f"{name}: not a file of predictions"):
            read_predicted(tmp_path / name)


def test_files_of_earlier_versions_are_still_read(tmp_path):
    """With the columns of version 0.1, as its code wrote them."""
    labels = [["O", "B-X"], [], ["B-é", "O", "I-X"]]
    common = {"split": ["dev"] * 3, "id": list(IDS)}
    files = {
        "classes": common | {"gold": labels, "predicted": [["O", "B-é"], [], ["B-é", "O", "O"]]},
        "values": common
        | {"gold": [[0.25, 1], [], [2.0, 3, 5]], "predicted": [[0.5, 1], [], [2.0, 3, -1]]},
        "losses": common | {"loss": [[0.0, 1], [], [2.0, 3, 4]]},
    }  # fmt: skip
    expected = {"classes": CLASSES, "values": VALUES, "losses": LOSSES}
    about = {b"probekit": json.dumps(asdict(ABOUT)).encode()}
    for name, columns in files.items():
        pq.write_table(pa.table(columns).replace_schema_metadata(about), tmp_path / name)
        _same(read_predicted(tmp_path / name)[1]["dev"], expected[name])


def test_a_file_of_the_first_version_has_its_names_sorted(tmp_path):
    write_predicted(tmp_path / "p", ABOUT, {"dev": CLASSES})
    table = pq.read_table(tmp_path / "p")
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "p")
    about, splits = read_predicted(tmp_path / "p")
    assert about is None
    assert splits["dev"].names == ("B-X", "B-é", "I-X", "O")
    assert [splits["dev"].names[i] for i in splits["dev"].gold] == ["O", "B-X", "B-é", "O", "I-X"]


def test_what_is_no_side_file(tmp_path):
    with pytest.raises(MissingFileError, match="again with --predictions"):
        read_predicted(tmp_path / "none")
    (tmp_path / "text").write_text("no parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other")
    uneven = {"split": ["dev"], "id": ["0"], "gold": [["O", "O"]], "predicted": [["O"]]}
    pq.write_table(pa.table(uneven), tmp_path / "uneven")
    for name in ("text", "other", "uneven"):
        with pytest.raises(RecordError, match=f"{name}: not a file of predictions"):
            read_predicted(tmp_path / name)


def test_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write predictions"):
        write_predicted(tmp_path / "file" / "p", ABOUT, {"dev": CLASSES})


def test_probabilities_follow_their_classes_into_other_numbers():
    found = Predicted(
        ids=("a",), offsets=np.array([0, 2]), content="classes",
        predicted=np.array([1, 0]), gold=np.array([1, 1]), names=("B", "A"),
        probabilities=np.array([[0.25, 0.75], [0.5, 0.5]], np.float16),
    )  # fmt: skip
    assert _renamed(found, ("B", "A", "C")).kept is None  # still in their order
    other = _renamed(found, ("A", "B", "C"))
    assert other.predicted.tolist() == [0, 1] and other.kept.tolist() == [[1, 0], [1, 0]]
    some = _renamed(replace(found, kept=np.array([[1, 0], [0, 1]])), ("A", "B", "C"))
    assert some.kept.tolist() == [[0, 1], [1, 0]]
    for one in (found, other):
        assert one.probability_of_predicted().tolist() == [0.75, 0.5]
    assert some.probability_of_predicted().tolist() == [0.25, 0.5]
    unkept = replace(some, kept=np.full((2, 2), 2))
    for one in (unkept, replace(found, probabilities=None)):
        assert np.isnan(one.probability_of_predicted()).all()
