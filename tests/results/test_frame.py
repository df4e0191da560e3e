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


def test_records_of_earlier_versions_have_the_texts_of_those_beside_them():
    texts = {"train": "aa" * 32, "test": "bb" * 32}
    old, new = make_record(seed=0), make_record(seed=1, texts=texts)
    assert [one.texts for one in Records([old, new])] == [texts] * 2
    other = make_record(seed=2, texts=texts | {"test": "cc" * 32})
    assert [one.texts for one in Records([old, new, other])] == [{}, texts, other.texts]
    elsewhere = make_record(seed=3, entry="train-76543210")
    assert [one.texts for one in Records([new, elsewhere])] == [texts, {}]


def test_one_text_of_ones_own_has_the_first_name():
    one, other, third = (
        make_record(seed=seed, task=f"{name}-0123abcd", texts={"train": letter * 64})
        for seed, (name, letter) in enumerate([("first", "a"), ("second", "a"), ("third", "b")])
    )
    found = [record.task for record in Records([one, other, third])]
    assert found == ["first-0123abcd", "first-0123abcd", "third-0123abcd"]
    hub = [make_record(seed=seed, task=f"{name}/x-20240101") for seed, name in enumerate("ab")]
    assert list(Records(hub)) == hub
