"""Ctrl-C that waits for the end of a block, once."""

import os
import signal
import threading

import pytest

from probekit.base.machine import interrupts_held


def test_the_first_interrupt_comes_at_the_end_of_the_block():
    before, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("the end")
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_comes_at_once():
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")


def test_an_error_in_the_block_goes_before():
    with pytest.raises(ValueError), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError


def test_other_threads_hold_nothing():
    def run():
        with interrupts_held():
            found.append(signal.getsignal(signal.SIGINT))

    found = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
