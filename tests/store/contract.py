"""The contract of a store, run on every backend (see test_zarr.py and test_hdf5.py).

Here are its refusals: locks, values and file systems that say no.
"""

import errno
import json
import os
import socket
from unittest.mock import Mock

import pytest

from probekit.errors import EntryLockedError, StateRangeError, StorageError
from probekit.store.layout import FEATURE_DTYPES
from tests.store import synthetic
from tests.store.contract_damage import DamageContract
from tests.store.contract_reading import ReadingContract
from tests.store.contract_writing import WritingContract


class StoreContract(ReadingContract, DamageContract, WritingContract):
    """Subclasses name the backend and say how to damage what it wrote (see `Backed`)."""

    def test_second_writer_is_told_who_holds_it(self, path):
        owner = path.with_name(path.name + ".lock.json")
        with self.open(path):
            name = f"process {os.getpid()} on {socket.gethostname()}, started 20"
            with pytest.raises(EntryLockedError, match=name):
                self.open(path)
            for text in ("{", "[]", '{"pid": 1}', "[" * 100_000):
                owner.write_text(text)
                with pytest.raises(EntryLockedError, match="another process"):
                    self.open(path)
        owner.write_text('{"host": "gone", "pid": 1, "started": "2020"}')  # left by a kill
        with self.open(path):
            assert json.loads(owner.read_text())["pid"] == os.getpid()
        assert not owner.exists()

    @pytest.mark.parametrize("dtype", FEATURE_DTYPES)
    def test_values_out_of_range(self, path, dtype):
        with self.open(path, dtype) as builder:
            for value in (float("nan"), float("-inf"), 1e5):
                blocks = {name: synthetic.block(0, name) for name in synthetic.ROWS}
                blocks["words"][2, 20, 7] = value
                if value == 1e5 and dtype != "float16":
                    builder.write_unit(0, synthetic.row_start(0), blocks)
                    continue
                remedy = "--dtype bfloat16" if value == 1e5 else "--compute-dtype float32"
                expected = rf"'words', layer 2, row chunk 1: .*{dtype}, found .*{remedy}"
                with pytest.raises(StateRangeError, match=expected):
                    builder.write_unit(0, synthetic.row_start(0), blocks)
                assert not builder.marks

    def test_refused_write(self, same, tmp_path, monkeypatch):
        path = tmp_path / "full-00000000"
        with self.open(path) as builder:
            synthetic.write(builder, [0])
            for number, says in (
                (errno.ENOSPC, r"\d GB still to write, .* GB free\). Free some space"),
                (errno.EDQUOT, "run the same command again"),
                (errno.EACCES, "write permission, or choose another folder with --cache"),
                (errno.EROFS, "--cache ROOT"),
            ):
                refusal = OSError(number, os.strerror(number))
                with monkeypatch.context() as patch:
                    patch.setattr(builder._writer, "write", Mock(side_effect=refusal))
                    with pytest.raises(StorageError, match=says) as caught:
                        synthetic.write(builder, [1])
                assert str(builder.partial) in str(caught.value)
            with monkeypatch.context() as patch, pytest.raises(StorageError):
                patch.setattr("probekit.store.unfinished.write_whole", Mock(side_effect=refusal))
                synthetic.write(builder, [1])
            assert builder.marks.keys() == {0}, "a unit is done when its mark is on the disk"
        with self.open(path) as builder:
            assert builder.marks.keys() == {0}
            same(self.finish(builder))

    def test_unwritable_folder(self, path, monkeypatch):
        refusal = PermissionError(errno.EACCES, "Permission denied", str(path.parent))
        monkeypatch.setattr("pathlib.Path.mkdir", Mock(side_effect=refusal))
        with pytest.raises(StorageError, match=f"cannot write to {path.parent}: Permission denied"):
            self.open(path)
