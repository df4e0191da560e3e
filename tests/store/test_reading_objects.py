"""JSON that anybody may have written is an object, or nothing."""

import pytest

from probekit.store.json_types import read_object
from probekit.store.layout import proven_key
from probekit.store.lock import read_owner
from probekit.store.unfinished import read_marks

ODD = [b"", b"\xff", b"{", b"[]", b"null", b"[" * 100_000, b"1" * 5000]


@pytest.mark.parametrize("data", ODD, ids=lambda data: repr(data[:4]))
def test_what_holds_no_object_holds_nothing(tmp_path, data):
    file = tmp_path / "000000.json"
    file.write_bytes(data)
    assert read_object(file) is None and read_owner(file) is None
    assert read_marks(tmp_path) == {} and not proven_key(file, tmp_path / "train-00000000")
    assert read_object(tmp_path) is None and read_object(tmp_path / "none") is None
    file.write_text('{"a": [1]}')
    assert read_object(file) == {"a": [1]} and read_marks(tmp_path) == {}
