"""A unit's chunks are written by several threads, and look as if one had written them."""

import threading
import time

import numpy as np
import pytest
import torch
import xxhash

from probekit.store import codec
from probekit.store.backends import ChunkPlaces
from probekit.store.checksums import ChunkSum
from probekit.store.codec import cut_pieces, write_copied_chunks, write_pieces
from probekit.store.layout import ArraySpec

SPEC = ArraySpec(name="words", rows=64, layers=(0, 3), dim=5, dtype="float16", chunk_rows=16)
BLOCK = torch.arange(2 * 40 * 5, dtype=torch.float32).view(2, 40, 5)


class SlowFirst:
    """A writer whose first chunk takes longest; keeps what it is given."""

    def __init__(self, fail=False):
        self.fail, self.written, self.running, self.most = fail, {}, 0, 0
        self.lock = threading.Lock()

    def write(self, array, row_chunk, layer_index, data):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            first = (row_chunk, layer_index) == (1, 0)
            time.sleep(0.1 if first else 0.02)
            if first and self.fail:
                raise OSError("no disk")
            self.written[row_chunk, layer_index] = data.tobytes()
        finally:
            with self.lock:
                self.running -= 1

    def sync(self):
        raise AssertionError("the builder syncs, once")

    close = sync


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch):
    monkeypatch.setattr(codec, "usable_cores", lambda: 3)


def test_checksums_come_in_order_whoever_is_first():
    writer = SlowFirst()
    sums = write_pieces(writer, list(cut_pieces(SPEC, 16, BLOCK)))
    places = [(layer, chunk) for layer in (0, 1) for chunk in (1, 2, 3)]
    assert [(s.layer_index, s.row_chunk) for s in sums] == places
    assert next(iter(writer.written)) != (1, 0)
    assert writer.most == 3
    for found in sums:
        layer, first = found.layer_index, (found.row_chunk - 1) * 16
        rows = torch.zeros(16, 5, dtype=torch.float16)
        part = BLOCK[layer, first : first + 16].half()
        rows[: len(part)] = part
        expected = rows.numpy().tobytes()
        assert writer.written[found.row_chunk, layer] == expected
        assert found.xxh128 == xxhash.xxh3_128(expected).hexdigest()
        assert found.nbytes == len(expected)


def test_copied_chunks_are_not_read_before_they_can_be_written(monkeypatch):
    """They come over a network, and a unit may be a gigabyte."""
    held, most = [], []

    class Slow:
        def __init__(self):
            self.places = {"words": places}

        def write(self, array, row_chunk, layer_index, data):
            time.sleep(0.002)
            held.pop()

    def read():
        held.append(1)
        most.append(len(held))
        return bytes(16 * 5 * 2)

    places = ChunkPlaces(SPEC.plain()[0], (), np.zeros(0), np.zeros(0), None)
    monkeypatch.setattr(codec, "damaged_chunks", lambda written, places: iter(()))
    chunks = [(ChunkSum("words", at, 0, 160, ""), read) for at in range(100)]
    assert write_copied_chunks(Slow(), iter(chunks)) == tuple(one for one, _ in chunks)
    assert len(most) == 100 and max(most) <= codec._MOST_COPIED


def test_nothing_runs_on_after_an_error():
    """The caller uses the memory of the pieces again."""
    writer = SlowFirst(fail=True)
    with pytest.raises(OSError, match="no disk"):
        write_pieces(writer, list(cut_pieces(SPEC, 16, BLOCK)))
    assert writer.running == 0
    written = len(writer.written)
    time.sleep(0.1)
    assert (writer.running, len(writer.written)) == (0, written)
