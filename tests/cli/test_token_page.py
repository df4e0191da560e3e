"""``predict --tokens --page``: texts coloured by what heads of several depths find in tokens."""

import json
import re

import pytest

from probekit.page.report_page import ColouredText, write_token_page
from tests.cli.console import done, refused

ROWS = [("a warm film", "good"), ("a dull film", "bad"), ("warm", "good"), ("dull", "bad")] * 3
TEXTS = "a warm <b>film</b>\na dull one\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    file = tmp_path_factory.mktemp("texts") / "train.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def cells(page):
    """The numbers of each line of a page, by its name."""
    lines = re.findall(r'<p class="said">(?:<i><bdi>(.*?)</bdi></i>)?(.*?)</p>', page, re.DOTALL)
    return [(name, re.findall(r'title="([0-9.]+)">([^<]*)</b>', line)) for name, line in lines]


def test_each_depth_has_a_line_of_tokens(bert, here, texts):
    own = ("--kind", "sentence", "--text", "text", "--label", "label")
    done("extract", bert, texts, *own, "--keep", "tokens", "--layers", "1,3")
    read = ("--token-head", "mean", "--layers", "1,3", "--hold-out", "0.5")
    done("depth", bert, texts, *read, "--save", "heads")
    outcome = done("predict", "heads", "-", "--tokens", "--page", "out.html", text=TEXTS)
    assert (outcome.out, outcome.err.splitlines()[-1]) == ("", "out.html")
    page = (here / "out.html").read_text("utf-8")
    lines = cells(page)
    assert [name for name, _ in lines] == ["depth1", "depth3"] * 2
    (folder,) = (here / "heads").glob("*depth3*")
    said = done("predict", folder, "-", "--tokens", "--json", text=TEXTS).rows
    for row, (_, shown) in zip(said, lines[1::2], strict=True):
        expected = [f"{token['probabilities']['good']:.3f}" for token in row["tokens"]]
        assert [number for number, _ in shown] == expected
    done("predict", folder, "-", "--tokens", "--page", "one.html", text=TEXTS)
    assert [name for name, _ in cells((here / "one.html").read_text("utf-8"))] == ["", ""]
    message = refused("predict", folder, "-", "--page", "one.html", text=TEXTS)
    assert message == "--page shows what a head finds in each token: add --tokens."
    words = ("predict", folder, "-", "--tokens", "--page", "one.html", "--json")
    assert (
        refused(*words, text=TEXTS) == "--page writes a file and --json prints: give one of them."
    )
    message = refused("predict", folder, "-", "--tokens", "--page", "one.txt", text=TEXTS)
    assert "give FILE.html" in message


def test_texts_are_shown_as_texts(tmp_path):
    out, rows = tmp_path / "page.html", {"<u>": [("<script>", 0.5)]}
    write_token_page(out, "<em>", [ColouredText(label="<s>", rows=rows | {"x": []})])
    page = out.read_text("utf-8")
    for name in ("em", "s", "u", "script"):
        assert f"<{name}>" not in page
        assert f"&lt;{name}&gt;" in page
