"""What is shown of work: progress bars, and HTML in which nothing of a text is obeyed."""

import sys
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.base import notices
from probekit.base.markup import html_pairs, html_table, html_view
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


class Read(HTMLParser):
    """The tags, attributes and text that a browser finds."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.cells: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        if tag in ("td", "th", "p"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "p"):
            self.cells[-1] += data


OURS = {"div", "style", "p", "table", "thead", "tbody", "tr", "th", "td"}

HOSTILE = ["<script>alert(1)</script>", "</td></table><img src=x onerror=alert(1)>", "a & b &lt;",
           "\"' onmouseover=x", "</style><b>", "<!-- ", "]]>"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    parts = html_table([text], [[text]], [True]), html_pairs({text: text})
    read = Read(html_view(*parts, title=text, notes=[text]))
    assert read.tags <= OURS and read.names <= {"class", "scope"} and not read.open
    assert read.cells == [text] * 6


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1))
def test_any_text_is_read_back(text):
    read = Read(html_table(["name"], [[text]], [False]))
    shown = read.cells[1]
    if shown != text:  # what turns the direction is spelled out
        assert len(shown) > len(text) and "\\u" in shown
    assert read.tags <= OURS


def test_control_characters_are_spelled_out():
    assert Read(html_pairs({"a\x1b[31m": "b\u202ec"})).cells == ["a\\x1b[31m", "b\\u202ec"]


def test_a_long_table_says_what_it_leaves_out():
    rows = [[str(n), n] for n in range(75)]
    assert "15 more rows are not shown" in html_table(["a", "b"], rows, [True, False])
    whole = html_table(["a", "b"], rows, [True, False], most=None)
    assert whole.count("<tr>") == 76 and "more rows" not in whole


def test_a_view_shows_itself():
    view = html_view(title="one")
    assert view._repr_html_() == view and view.startswith('<div class="probekit">')
