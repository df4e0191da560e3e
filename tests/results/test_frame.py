"""Records as a data frame: a column for every number, one row per record."""

import pytest

from probekit.results import Records, append_record, load_records, select
from tests.results.samples import make_record


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "r.jsonl"
    append_record(path, make_record("p32", 0, n_blocks=11, shots=8))
    append_record(path, make_record("last", 1, test_score=None, options={"head.n": 2}))
    return load_records(path)


def test_numbers_have_columns_of_their_own(records):
    frame = records.to_pandas()
    assert len(frame) == 2
    first, second = (frame.iloc[n] for n in (0, 1))
    assert first["weights/3"] == records[0].weights[3]
    assert first["scores/dev/f1/PER"] == records[0].scores["dev/f1/PER"]
    assert second["options/head.n"] == 2
    assert first["layers"] == records[0].layers
    assert first["confusion"] == records[0].confusion
    assert frame["shots"].dtype == "Int64" and frame["shots"].isna().tolist() == [False, True]
    assert frame["test_score"].isna().tolist() == [False, True]
    assert "weights" not in frame and "options" not in frame
    weights = [name for name in frame if name.startswith("weights/")]
    assert weights == [f"weights/{layer}" for layer in range(1, 12)]
    assert list(frame)[:3] == ["model", "task", "label"]


def test_what_is_selected_is_still_a_table_and_knows_its_file(records):
    chosen = select(records, ["head=p32"])
    assert len(chosen.to_pandas()) == 1
    assert chosen.origins[chosen[0].key].name == "r.jsonl"
    assert isinstance(records, list) and records == list(records)


def test_no_records_are_an_empty_table():
    frame = Records().to_pandas()
    assert len(frame) == 0 and "head" in frame
