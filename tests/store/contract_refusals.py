"""The store's contract: locks, values and file systems that say no."""

import errno
import json
import os
import socket

import pytest

from probekit.errors import EntryLockedError, StateRangeError, StorageError
from probekit.store.arrays import FEATURE_DTYPES
from tests.store import synthetic
from tests.store.backed import Backed


class RefusalContract(Backed):
    """Each refusal says who or what, and what to do."""

    def test_second_writer_is_told_who_holds_it(self, path):
        with self.open(path):
            name = f"process {os.getpid()} on {socket.gethostname()}, started 20"
            with pytest.raises(EntryLockedError, match=name):
                self.open(path)
        self.open(path).close()

    def test_stale_owner_is_harmless(self, path):
        owner = path.with_name(path.name + ".lock.json")
        owner.write_text('{"host": "gone", "pid": 1, "started": "2020"}')
        path.with_name(path.name + ".lock").touch()
        with self.open(path):
            assert json.loads(owner.read_text())["pid"] == os.getpid()
        assert not owner.exists()

    @pytest.mark.parametrize("text", ["{", "[]", '{"pid": 1}', "[" * 100_000], ids=len)
    def test_unreadable_owner(self, path, text):
        with self.open(path):
            path.with_name(path.name + ".lock.json").write_text(text)
            with pytest.raises(EntryLockedError, match="another process"):
                self.open(path)

    @pytest.mark.parametrize("value", [1e5, float("nan"), float("-inf")])
    @pytest.mark.parametrize("dtype", FEATURE_DTYPES)
    def test_values_out_of_range(self, path, dtype, value):
        blocks = {name: synthetic.block(0, name) for name in synthetic.ROWS}
        blocks["words"][2, 20, 7] = value
        with self.open(path, dtype) as builder:
            if value == 1e5 and dtype != "float16":
                builder.write_unit(0, synthetic.row_start(0), blocks)
                return
            remedy = "--dtype bfloat16" if value == 1e5 else "--compute-dtype float32"
            expected = rf"'words', layer 2, row chunk 1: .*{dtype}, found .*{remedy}"
            with pytest.raises(StateRangeError, match=expected):
                builder.write_unit(0, synthetic.row_start(0), blocks)
            assert builder.marks.keys() == set()

    @pytest.mark.parametrize(
        ("number", "says"),
        [
            (errno.ENOSPC, r"\d GB still to write, .* GB free\). Free some space"),
            (errno.EDQUOT, "run the same command again"),
            (errno.EACCES, "write permission, or choose another folder with --cache"),
            (errno.EROFS, "--cache ROOT"),
        ],
    )
    def test_refused_write(self, fresh, tmp_path, monkeypatch, number, says):
        path = tmp_path / "full-00000000"

        def refuse(*_):
            raise OSError(number, os.strerror(number))

        with self.open(path) as builder:
            synthetic.write(builder, [0])
            with monkeypatch.context() as patch:
                patch.setattr(builder._writer, "write", refuse)
                with pytest.raises(StorageError, match=says) as caught:
                    synthetic.write(builder, [1])
            assert str(builder.partial) in str(caught.value)
        with self.open(path) as builder:
            assert builder.marks.keys() == {0}
            entry = synthetic.finish(builder, self.backend, "float16")
        assert synthetic.folder_bytes(entry.path) == synthetic.folder_bytes(fresh.path)

    def test_unwritable_folder(self, path, monkeypatch):
        def refuse(folder, *_, **__):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))

        monkeypatch.setattr("pathlib.Path.mkdir", refuse)
        with pytest.raises(StorageError, match=f"cannot write to {path.parent}: Permission denied"):
            self.open(path)
