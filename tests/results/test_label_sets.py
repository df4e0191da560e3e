"""Predictions of sets of labels on disk."""

from dataclasses import replace

import numpy as np
import pytest

from probekit.metrics import ROW_SCORES
from probekit.results.predictions import About, Predicted, read_predicted, write_predicted

NAMES = ("a", "b", "new")


def predicted(odds=True):
    gold = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]], bool)
    scores = np.array([[1.5, -1], [-2, -0.5], [0.25, 3]], np.float32)
    return Predicted(
        ids=("x", "y", "z"), offsets=np.arange(4), content="sets",
        predicted=np.pad(scores > 0, ((0, 0), (0, 1))), gold=gold, names=NAMES,
        texts=("one", "two", "three"), probabilities=np.full((3, 2), 0.5, np.float16),
        row_scores=np.zeros(3, ROW_SCORES), odds=scores if odds else None,
    )  # fmt: skip


@pytest.mark.parametrize("odds", [True, False])
def test_they_are_read_as_they_were_written(tmp_path, odds):
    about = About(key="k", metric="macro-f1", labels_fingerprint="f", classes=NAMES[:2])
    splits = {"dev": predicted(odds), "test": replace(predicted(odds), ids=("1", "2", "3"))}
    write_predicted(tmp_path / "p.parquet", about, splits)
    read_about, read = read_predicted(tmp_path / "p.parquet")
    assert read_about == about
    for split, expected in splits.items():
        found = read[split]
        assert (found.ids, found.names, found.content) == (expected.ids, NAMES, "sets")
        for name in ("predicted", "gold", "offsets", "probabilities", "odds"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert found.row_scores["right"].tolist() == [False, True, False]
    _, short = read_predicted(tmp_path / "p.parquet", texts=False, probabilities=False)
    assert short["dev"].probabilities is None and (short["dev"].odds is not None) == odds
    assert short["dev"].label_text(short["dev"].gold[0]) == "a, b"
    assert short["dev"].label_text(short["dev"].gold[1]) == "(none)"
