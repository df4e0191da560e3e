"""Progress bars: quiet in a file, silent when hidden."""

import pytest

from probekit.progress import ProgressBar


def test_a_file_gets_few_lines(capsys):
    with ProgressBar(total=10_000, desc="train", unit="step", shown=True) as bar:
        for _ in range(1_000):
            bar.update(10)
    printed = capsys.readouterr().err
    assert "train: 100%" in printed and "10000/10000" in printed
    assert printed.count("\r") <= 3


def test_a_hidden_bar_prints_nothing(capsys):
    with ProgressBar(total=2, desc="x", unit="text", shown=False) as bar:
        assert list(bar.over("ab")) == ["a", "b"]
    assert capsys.readouterr().err == ""


def test_items_are_counted_when_they_are_done(capsys):
    bar = ProgressBar(total=3, desc="x", unit="chunk", shown=True)
    with pytest.raises(ZeroDivisionError), bar:
        for item in bar.over([1, 2, 0]):
            1 / item
    assert "2/3" in capsys.readouterr().err
