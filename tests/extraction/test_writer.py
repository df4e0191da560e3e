"""The writer thread: order, back-pressure and errors."""

import threading
import time

import pytest

from probekit.extraction.compute import writer_thread


def test_put_waits_while_one_item_is_written():
    release = threading.Event()
    written = []

    def write(item):
        release.wait(10)
        written.append(item)

    with writer_thread(write) as put:
        put(0)
        blocked = threading.Thread(target=put, args=(1,))
        blocked.start()
        blocked.join(0.2)
        assert blocked.is_alive()
        release.set()
        blocked.join(10)
    assert written == [0, 1]


def test_an_error_reaches_the_caller_and_later_items_are_dropped():
    written = []

    def write(item):
        if item == 1:
            raise OSError("disk full")
        written.append(item)

    with pytest.raises(OSError, match="disk full"), writer_thread(write) as put:
        for item in range(50):
            put(item)
            time.sleep(0.001)
    assert written == [0]


def test_an_error_of_the_last_item_is_raised_on_leaving_unless_the_caller_has_its_own():
    def fail(item):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), writer_thread(fail) as put:
        put(0)
    with pytest.raises(KeyError), writer_thread(fail) as put:
        put(0)
        raise KeyError("mine")
