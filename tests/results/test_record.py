"""A record is plain, finite, and survives JSON; records are a data frame, a row for each."""

import json
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.errors import RecordError
from probekit.results import Record, Records, append_record, load_records, select
from tests.results.samples import make_record

FINITE = st.floats(-1e150, 1e150)


@settings(max_examples=30)
@given(
    weights=st.dictionaries(st.integers(0, 99), FINITE),
    raw=st.none() | st.dictionaries(st.integers(0, 99), FINITE),
    curve=st.lists(st.tuples(st.integers(0, 10**9), FINITE, FINITE)), score=FINITE, text=st.text(),
)  # fmt: skip
def test_json_round_trip(weights, raw, curve, score, text):
    record = make_record(
        weights=weights, raw_weights=raw, curve=curve, eval_score=score, entry=text
    )
    line = json.dumps(record.to_json(), allow_nan=False)
    assert Record.from_json(json.loads(line)) == record


def test_values_become_plain():
    record = make_record(
        layers=np.array([1, 2]), eval_score=np.float32(0.5), n_params=np.int64(7),
        weights={1: np.float32(0.25), 2: np.float64(0.75)},
    )  # fmt: skip
    assert record.layers == (1, 2)
    assert type(record.eval_score) is float and type(record.n_params) is int
    assert record.weights == {1: 0.25, 2: 0.75}
    assert {type(layer) for layer in record.weights} == {int}
    assert json.loads(json.dumps(record.to_json()))["weights"] == {"1": 0.25, "2": 0.75}


NAN, AB = float("nan"), {"rows": ["a"], "columns": ["a", "b"]}
BAD = {
    "eval_score": [NAN, None, "0.5"], "test_score": [float("inf")], "seed": [0.5, True],
    "model": [3], "layers": [3, [0.5]], "weights": [{1: NAN}, {"first": 0.5}, [0.5]],
    "raw_weights": [{1: float("-inf")}], "curve": [[[1, 0.5]], [[1, NAN, 0.5]]],
    "scores": [{"f1": None}], "predictions": [1], "freeze": [1],
    "seen": [{"blocks": 10**12}, {"of_examples": "many"}, {"limit": -1}],
    "options": [{"hidden": {"a": 1}}, {"hidden": NAN}],
    "class_weights": [{"PER": {1: NAN}}, {"PER": 0.5}],
    "confusion": [[[1, 2]], AB, AB | {"counts": [[1]]}, AB | {"counts": [[1, 0.5]]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in BAD.items() for value in values]
)
def test_bad_value_names_its_field(field, value):
    with pytest.raises(RecordError, match=f"'{field}'"):
        make_record(**{field: value})


@pytest.mark.parametrize("version", ["0.1.1", "0.10", "1.0rc1", "0.1.0", None, 3, "9" * 5000])
@pytest.mark.parametrize("change", [{"seed": "first"}, {"head": None}])
def test_a_record_that_cannot_be_read_says_which_version_reads_it(version, change):
    values = make_record().to_json() | change | {"version": version}
    with pytest.raises(RecordError) as caught:
        Record.from_json({name: value for name, value in values.items() if name != "task"} or {})
    newer = isinstance(version, str) and version != "0.1.0" and len(version) < 10
    assert newer == (f"written by probekit {version}: upgrade" in str(caught.value))


def test_later_fields_round_trip_and_are_written_only_where_they_say_something():
    record = make_record(
        pooling="cls",
        options={"head.n": np.int64(2), "decoder.hidden": [128, 64], "trained": True, "p": 0.5},
        init="ab" * 32,
        freeze=True,
        class_weights={"PER": {1: np.float32(0.25), 2: 0.75}, "O": {1: 1.0}},
        confusion={"rows": ["O"], "columns": ["O", "PER"], "counts": np.array([[5, 1]])},
    )
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert record.options["decoder.hidden"] == (128, 64)
    later = {"pooling", "options", "init", "freeze", "class_weights", "confusion"}
    plain = make_record(class_weights={}, confusion=None)
    assert set(record.to_json()) - set(plain.to_json()) == later


def test_fields_that_are_missing_or_unknown(caplog):
    """Those with a default may be missing; those of newer versions are noted."""
    record = make_record(raw_weights=None, test_score=None)
    data = {name: value for name, value in record.to_json().items() if value is not None}
    with caplog.at_level(logging.INFO):
        assert Record.from_json(data | {"colour": "red"}) == record
    assert "colour" in caplog.text
    del data["head"], data["seed"]
    with pytest.raises(RecordError, match="lacks head, seed"):
        Record.from_json(data)


# records as a data frame


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
