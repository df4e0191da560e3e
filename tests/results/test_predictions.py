"""Side files of predictions: classes, values and losses survive; others are refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.errors import MissingFileError, RecordError, StorageError
from probekit.results.predictions import About, Predicted, read_predicted, write_predicted

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
    ids=IDS,
    offsets=OFFSETS,
    content="values",
    predicted=np.array([0.5, 1, 2, 3, -1], np.float32),
    gold=np.array([0.25, 1, 2, 3, 5]),
)
LOSSES = Predicted(
    ids=IDS, offsets=OFFSETS, content="losses", predicted=np.arange(5, dtype=np.float32), gold=None
)


def _same(one, two):
    assert (one.ids, one.content, one.names) == (two.ids, two.content, two.names)
    for name in ("offsets", "predicted", "gold"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("found", [CLASSES, VALUES, LOSSES], ids=lambda found: found.content)
def test_round_trip(tmp_path, found):
    path = tmp_path / "new" / "p.parquet"
    write_predicted(path, ABOUT, {"dev": found, "test": found})
    assert [file.name for file in path.parent.iterdir()] == ["p.parquet"]
    about, splits = read_predicted(path)
    assert about == ABOUT
    assert list(splits) == ["dev", "test"]
    for split in splits.values():
        _same(split, found)


def test_columns_are_names_that_people_can_read(tmp_path):
    write_predicted(tmp_path / "p", ABOUT, {"dev": CLASSES})
    rows = pq.read_table(tmp_path / "p").to_pylist()
    assert rows[0] == {
        "split": "dev",
        "id": "dev-0",
        "gold": ["O", "B-X"],
        "predicted": ["O", "B-é"],
    }
    assert rows[1]["gold"] == []


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
