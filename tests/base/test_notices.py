"""Progress bars: lines in a file, nothing of short work there, silent when hidden."""

import sys
import time

import pytest

from probekit.base import notices
from probekit.base.notices import ProgressBar


def test_a_file_gets_lines_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(notices, "_FILE", 0.05)
    with ProgressBar(total=100, desc="train", unit="step", shown=True) as bar:
        for _ in range(10):
            time.sleep(0.06)
            bar.report(10)
    printed = capsys.readouterr().err
    assert "\r" not in printed
    lines = printed.splitlines()
    assert len(lines) > 1
    assert len(set(lines)) == len(lines)
    assert all(line.startswith("train: ") and line.endswith(" left") for line in lines)
    assert lines[-1].startswith("train: 100% of 100 steps, ")


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_is_printed_of_short_work_in_a_file_and_of_a_hidden_bar(shown, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: not shown)
    with ProgressBar(total=3, desc="train", unit="step", shown=shown) as bar:
        bar.report(3)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_what_is_being_done(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar(total=10, desc="train", unit="step", shown=True) as bar:
        bar.report(4)
        bar.report("p32 seed 3: 71.2")
    printed = capsys.readouterr().err
    assert "4/10" in printed and printed.rstrip().endswith("p32 seed 3: 71.2]")


def test_a_line_of_a_file_says_what_is_being_done(capsys, monkeypatch):
    monkeypatch.setattr(notices, "_FILE", 0.0)
    with ProgressBar(total=10, desc="train", unit="step", shown=True) as bar:
        bar.report("p32 seed 3: 71.2")
        bar.report(4)
    assert capsys.readouterr().err.splitlines()[-1].endswith(" left, p32 seed 3: 71.2")


def test_work_that_is_done_twice_does_not_count_beyond_the_total(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar(total=10, initial=3, desc="train", unit="step", shown=True) as bar:
        for count in (5, 5, 5):
            bar.report(count)
    assert "10/10" in capsys.readouterr().err.splitlines()[-1]


def test_a_notebook_without_widgets_has_the_bar_of_a_terminal(capsys, monkeypatch):
    assert not notices.in_notebook()
    monkeypatch.setattr(notices, "in_notebook", lambda: True)
    monkeypatch.setattr(notices, "find_spec", lambda name: None)
    with ProgressBar(total=10_000, desc="train", unit="step", shown=True) as bar:
        bar.report(10_000)
    printed = capsys.readouterr().err
    assert "train: 100%" in printed and "10000/10000" in printed and "arning" not in printed
