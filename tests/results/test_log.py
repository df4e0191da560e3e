"""The results file survives kills, torn lines and several writers at once."""

import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from probekit.errors import MissingFileError, RecordError, StorageError
from probekit.results import append_record, load_records
from probekit.results.claims import Claims
from probekit.results.log import check_appendable, records_lock
from tests.results.samples import make_record

FORK = multiprocessing.get_context("fork")

# a fork of a process with threads, which the tests have and writers of records do not use
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def _records(count):
    return [make_record(seed=seed) for seed in range(count)]


def test_a_file_of_two_names_has_one_lock(tmp_path):
    path, other = tmp_path / "task.jsonl", tmp_path / "elsewhere" / "mine.jsonl"
    first, second = _records(2)
    append_record(path, first)
    other.parent.mkdir()
    other.symlink_to(path)
    writer = threading.Thread(target=append_record, args=(other, second))
    with records_lock(path):
        writer.start()
        writer.join(0.3)
        assert writer.is_alive() and load_records(path) == [first]
    writer.join(60)
    assert load_records(path) == load_records(other) == [first, second]


def test_claims_are_of_the_file_whatever_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "link.jsonl").symlink_to("task.jsonl")
    monkeypatch.chdir(tmp_path)
    with Claims(tmp_path / "link.jsonl") as ours, Claims(Path("task.jsonl")) as theirs:
        assert ours.take(["a" * 64]) == {"a" * 64}
        assert not theirs.take(["a" * 64])


def test_probes_that_an_earlier_version_fitted_to_resamples_are_passed_over(tmp_path, caplog):
    caplog.set_level("INFO", "probekit")
    first, second = _records(2)
    path = tmp_path / "task.jsonl"
    refit = second.to_json() | {"resample": 3}
    path.write_text("\n".join(map(json.dumps, (first.to_json(), refit))) + "\n")
    assert load_records(path) == [first]
    assert "ignored unknown" not in caplog.text


def test_every_torn_tail_is_ignored_and_cut_off(tmp_path, caplog):
    first, second = _records(2)
    path = tmp_path / "task.jsonl"
    append_record(path, first)
    whole = path.read_bytes()
    append_record(path, second)
    line = path.read_bytes()[len(whole) :]
    longer_than_a_block = b'{"model": "' + "é".encode() * 100_000
    cuts = (*range(1, 20), len(line) // 2, len(line) - 2)
    for tail in (*(line[:cut] for cut in cuts), longer_than_a_block):
        path.write_bytes(whole + tail)
        assert load_records(path) == [first]
        append_record(path, second)
        assert path.read_bytes() == whole + line
    assert "torn" in caplog.text


def test_a_whole_last_line_without_newline_is_kept(tmp_path):
    path, records = tmp_path / "task.jsonl", _records(2)
    for count in (1, 2):
        append_record(path, records[count - 1])
        whole = path.read_bytes()
        path.write_bytes(whole.rstrip(b"\n"))
        assert load_records(path) == records[:count]
        if count == 2:  # before anything is trained
            check_appendable(path)
            assert path.read_bytes() == whole


@pytest.mark.parametrize("torn", [None, 40, 200])
@pytest.mark.parametrize("more", ["", "}}", '{"model": "m', " # mine"])
def test_whole_records_on_one_line_are_not_cut(tmp_path, torn, more):
    path, records = tmp_path / "task.jsonl", _records(2)
    for record in records:
        append_record(path, record)
    lines = path.read_bytes().splitlines()
    before = b"" if torn is None else lines[1][:torn]
    text = lines[0] + b"\n" + before + lines[0] + (more.encode() or lines[1])
    path.write_bytes(text)
    with pytest.raises(RecordError, match="holds a whole record and something else"):
        check_appendable(path)
    with pytest.raises(RecordError, match="line 2: holds a whole record"):
        load_records(path)
    assert path.read_bytes() == text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", b"\x89PNG, or anything else"),
        ("nan.json", b'{"loss": NaN, "mine": [1,2,3]}'), ("mine.json", b'{"loss": 1}'),
        ("notes.rtf", b"{\\rtf1 my notes}"), ("disk.img", bytes(5000)),
        ("array.jsonl", b'\n{"b": 2}]'),
        ("batch.jsonl", b'{"model": "gpt", "prompt": "a"}\n{"model": "gpt", "prompt": "b"}'),
        ("alone.jsonl", b'{"model": "gpt", "prompt": "a"}'), ("notes.jsonl", b"my notes\n{"),
        ("list.json", b'{"a": 1}\n{"model": "'), ("short.jsonl", b'{"model": "a", "x'),
        ("begun.jsonl", b'{"model": "gpt-4", "messages": [1,2'),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_records_is_left_alone(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    for attempt in (check_appendable, lambda path: append_record(path, make_record())):
        with pytest.raises(RecordError, match=rf"{name}: not a file of records"):
            attempt(path)
    assert path.read_bytes() == content


def test_what_a_power_cut_left_of_the_first_record_is_cut_off(tmp_path):
    path = tmp_path / "task.jsonl"
    for left in (bytes(100), b'{"model": "org/ti', b'{"mod' + bytes(0)):
        path.write_bytes(left)
        append_record(path, make_record())
        assert load_records(path) == [make_record()]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"model": "x"', "not a JSON line"),
        (b"\xff\xfe", "not a JSON line"),
        (b"[1, 2]", "found list"),
        (b'{"model": "x"}', "lacks task, label"),
        (b'{"model": NaN}', "NaN is no JSON number"),
        (json.dumps(make_record().to_json() | {"seed": "zero"}).encode(), "record field 'seed'"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, problem):
    path = tmp_path / "task.jsonl"
    append_record(path, make_record())
    good = path.read_bytes()
    path.write_bytes(good + line + b"\n" + good)
    with pytest.raises(RecordError, match=problem) as caught:
        load_records(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert "\n" not in str(caught.value)


def test_unknown_fields_are_noted_once_per_file(tmp_path, caplog):
    path = tmp_path / "task.jsonl"
    lines = [json.dumps(record.to_json() | {"colour": 1}) + "\n" for record in _records(3)]
    path.write_text("".join(lines))
    with caplog.at_level(logging.INFO):
        assert load_records(path) == _records(3)
    assert caplog.text.count("colour") == 1


def test_last_of_equal_keys_counts(tmp_path):
    path = tmp_path / "task.jsonl"
    for key, score in (("same", 0.25), ("same", 0.5), ("other", 0.75)):
        append_record(path, make_record(key=key, eval_score=score))
    loaded = load_records([path, path])
    assert [(one.key, one.eval_score) for one in loaded] == [("same", 0.5), ("other", 0.75)]


def test_folder_stands_for_its_files(tmp_path):
    append_record(tmp_path / "b" / "x.jsonl", make_record(seed=1))
    append_record(tmp_path / "a" / "x.jsonl", make_record(seed=0))
    assert load_records(tmp_path) == _records(2)


def test_missing_and_unwritable_paths(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        load_records(tmp_path / "none.jsonl")
    with pytest.raises(MissingFileError, match="holds no results file"):
        load_records([tmp_path])
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot append a record"):
        append_record(tmp_path / "file" / "task.jsonl", make_record())


def test_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "task.jsonl"
    append_record(path, make_record())
    before = path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    with pytest.raises(StorageError, match="disk is full"):
        append_record(path, make_record(seed=1))
    monkeypatch.undo()
    assert path.read_bytes() == before


def _append_many(path, writer):
    for number in range(20):
        append_record(path, make_record(seed=1000 * writer + number))


def test_several_processes_append_whole_lines(tmp_path):
    path = tmp_path / "task.jsonl"
    writers = [FORK.Process(target=_append_many, args=(path, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(600)
        assert writer.exitcode == 0
    expected = sorted(1000 * writer + number for writer in range(4) for number in range(20))
    assert sorted(record.seed for record in load_records(path)) == expected


def _killed_mid_write(path, record):
    write = os.write

    def torn(file, data):
        write(file, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    os.write = torn
    append_record(path, record)


def test_kill_in_the_middle_of_a_write(tmp_path):
    path = tmp_path / "task.jsonl"
    append_record(path, make_record(seed=0))
    writer = FORK.Process(target=_killed_mid_write, args=(path, make_record(seed=1)))
    writer.start()
    writer.join(60)
    assert writer.exitcode == -signal.SIGKILL
    assert not path.read_bytes().endswith(b"\n")
    assert load_records(path) == [make_record(seed=0)]
    started = time.monotonic()
    append_record(path, make_record(seed=1))  # the dead process's lock does not hold us up
    assert time.monotonic() - started < 5
    assert load_records(path) == _records(2)


def test_predictions_beside_are_named_from_there_on(tmp_path):
    """A file of records tells nothing of the folders of a machine, and may be moved with them."""
    side = tmp_path / "a" / "r-predictions" / "k.parquet"
    side.parent.mkdir(parents=True)
    side.touch()
    elsewhere = str(tmp_path / "b" / "other" / "k.parquet")
    file = tmp_path / "a" / "r.jsonl"
    for seed, path in enumerate((str(side), elsewhere)):
        append_record(file, make_record(seed=seed, predictions=path))
    stored = [json.loads(line)["predictions"] for line in file.read_text().splitlines()]
    assert stored == ["r-predictions/k.parquet", elsewhere]
    assert [one.predictions for one in load_records(file)] == [str(side), elsewhere]
    (tmp_path / "a").rename(tmp_path / "moved")
    moved = load_records(tmp_path / "moved" / "r.jsonl")[0].predictions
    assert moved == str(tmp_path / "moved" / "r-predictions" / "k.parquet")


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path, caplog):
    path, records = tmp_path / "task.jsonl", _records(2)
    for record in records:
        append_record(path, record)
    whole = path.read_bytes()
    for place in range(0, len(whole), 19):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        caplog.clear()
        try:
            found = load_records(path)
        except RecordError:
            continue
        assert found == records or "torn" in caplog.text, (place, flipped[place - 9 :][:19])


def test_who_changes_a_record_on_purpose_deletes_its_checksum(tmp_path, caplog):
    (record,) = _records(1)
    path = tmp_path / "task.jsonl"
    append_record(path, record)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored, indent=None, separators=(",", ":")) + "\n")
    assert load_records(path) == [record]  # the same values in another form
    path.write_text(json.dumps(stored | {"seed": 7}) + "\n")
    with pytest.raises(
        RecordError, match=r"task\.jsonl, line 1: its checksum does not match.* delete its checksum"
    ):
        load_records(path)
    del stored["checksum"]
    path.write_text(json.dumps(stored | {"seed": 7}) + "\n")
    with caplog.at_level(logging.INFO):
        assert load_records(path)[0].seed == 7
    assert "1 records without a checksum, of an earlier version" in caplog.text
