"""HTML for notebooks: nothing of a text is obeyed, and all of it is there."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probekit.base.markup import html_pairs, html_table, html_view


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
