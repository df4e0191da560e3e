"""Tasks of sae-probes: rows of each split as its own runner draws them."""

import numpy as np
import pandas
import pyarrow as pa
import pytest

from probekit.errors import DataError, MissingFileError, OptionError
from probekit.tasks import get_task, variants_of

MASTER = "probing_datasets_MASTER.csv.zst"


def write(path, table):
    with pa.output_stream(path, compression="zstd") as stream:
        stream.write(pandas.DataFrame(table).to_csv(index=False).encode())


@pytest.fixture
def folder(tmp_path):
    """The list of tasks above a folder with two tables, one of them with a blank in its name."""
    names = ["1_x.csv", "2_a b.csv", "3_many.csv"]
    kinds = ["Binary Classification", "Binary Classification", "Multiclass Classification"]
    saved = [f"cleaned_data/{name}" for name in names]
    write(tmp_path / MASTER, {"Data type": kinds, "Dataset save name": saved})
    data = tmp_path / "cleaned_data"
    data.mkdir()
    targets = {"1_x": np.arange(400) % 2, "2_a b": np.array(["no", "yes"] * 1200)}
    for name, target in targets.items():
        prompts = [f"text {n}" for n in range(len(target))]
        write(data / f"{name}.csv.zst", {"prompt": prompts, "target": target})
    return data


def by_hand(target, n_train, n_test):
    """The rows that numpy draws with the seed 42: of the second class first, and then all mixed."""
    random = np.random.RandomState(42)
    parts, left = [], [np.flatnonzero(target == value) for value in np.unique(target)[::-1]]
    for size in (n_train, n_test):
        drawn = [
            random.choice(rows, size=half, replace=False)
            for rows, half in zip(left, (-(-size // 2), size // 2), strict=True)
        ]
        left = [np.setdiff1d(rows, taken) for rows, taken in zip(left, drawn, strict=True)]
        parts.append(np.concatenate(drawn))
    return [random.permutation(rows) for rows in parts]


@pytest.mark.parametrize(
    ("tag", "target", "n_train"),
    [("1_x", np.arange(400) % 2, 300), ("2_a_b", np.array(["no", "yes"] * 1200), 1024)],
)
def test_rows_are_those_of_the_seed(folder, tag, target, n_train):
    task = get_task(f"sae-probes/{tag}")
    train, test = by_hand(target, n_train, len(target) - n_train - 1)
    n_dev = min(n_train // 5, 100)
    for split, rows in {"train": train[:-n_dev], "dev": train[-n_dev:], "test": test}.items():
        read = task.read(split, folder)
        assert [example.id for example in read.examples] == [f"row-{row}" for row in rows]
        assert [example.text for example in read.examples] == [f"text {row}" for row in rows]
        assert [label for (label,) in read.labels["target"]] == list(map(str, target[rows]))


def test_binary_tasks_are_listed(folder):
    expected = ["sae-probes/1_x", "sae-probes/2_a_b"]
    assert variants_of("sae-probes", folder) == variants_of("sae-probes", folder.parent) == expected
    with pytest.raises(MissingFileError, match="Give --data DIR: the package sae-probes"):
        variants_of("sae-probes", None)


def test_texts_of_another_source_are_the_test(folder):
    (folder.parent / "OOD data").mkdir()
    other = {"prompt": ["far a", "far b", "far c"], "target": ["yes", "1", "yes"]}
    write(folder.parent / "OOD data/2_a_b_OOD.csv.zst", other)
    assert variants_of("sae-probes-ood", folder) == ["sae-probes-ood/2_a_b"]
    task = get_task("sae-probes-ood/2_a_b")
    test = task.read("test", folder)
    assert [example.text for example in test.examples] == ["far a", "far b", "far c"]
    assert [label for (label,) in test.labels["target"]] == ["yes", "no", "yes"]  # by their order
    same = get_task("sae-probes/2_a_b").read("train", folder)
    assert task.read("train", folder).examples == same.examples


def test_what_is_no_such_table_is_told(folder):
    with pytest.raises(OptionError, match=r"needs --data DIR.*the package sae-probes"):
        get_task("sae-probes/1_x").read("train")
    for table, message in (
        ({"prompt": ["a"] * 300, "target": [0, 1, 2] * 100}, "has 3 classes"),
        ({"prompt": ["a"] * 300, "target": [0] * 290 + [1] * 10}, "too few texts of a class"),
        ({"text": ["a"], "target": [0]}, "no column 'prompt'"),
    ):
        write(folder / "1_x.csv.zst", table)
        with pytest.raises(DataError, match=message):
            get_task("sae-probes/1_x").read("train", folder)
    (folder / "1_x.csv.zst").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a table of sae-probes"):
        get_task("sae-probes/1_x").read("train", folder)
