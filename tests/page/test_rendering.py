"""The page as a file: texts stay texts, nothing is loaded, and only its own scripts may run."""

import base64
import hashlib
import html
import json
import re
from importlib.resources import files

import pytest

from probekit.page.report_page import LIBRARIES, render, script_json
from tests.page.samples import HOSTILE, PageReader, links_of

VENDOR = files("probekit.page") / "static" / "vendor"


@pytest.mark.parametrize("text", [*HOSTILE, "half \ud800 of a pair", "\x00\x1f\x7f", "\u0130"])
def test_a_text_comes_back_as_it_was_and_ends_no_element(text):
    page = render(text, {"texts": [text, {text: text}]}).decode()
    clean = render("title", {"texts": ["a", {"b": "c"}]}).decode()
    read = PageReader(page)
    assert read.data == {"texts": [text, {text: text}]}
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in PageReader(clean).elements]
    if "\x00" not in text and "\ud800" not in text:  # which no HTML can hold
        titles = re.findall("<title>(.*?)</title>", page, re.DOTALL)
        assert list(map(html.unescape, titles)) == [text]


def test_json_of_a_script_holds_no_sign_of_markup():
    text = script_json({"".join(HOSTILE): list(HOSTILE)})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"".join(HOSTILE): list(HOSTILE)}


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json({"score": float("nan")})


def test_nothing_is_loaded_from_elsewhere():
    page = PageReader(render("title", {}).decode())
    assert links_of(page) == []
    policy = _policy(page)
    assert policy["default-src"] == ["'none'"]
    assert "'unsafe-inline'" not in policy["script-src"]


def test_the_policy_names_every_script_and_no_other():
    page = PageReader(render("title", {}).decode())
    plain = [
        script
        for script, attrs in zip(
            page.scripts, [a for tag, a in page.elements if tag == "script"], strict=True
        )
        if "type" not in attrs
    ]
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in plain]
    assert _policy(page)["script-src"] == [f"'sha256-{one}'" for one in digests]


def _policy(page):
    (content,) = [
        attrs["content"]
        for tag, attrs in page.elements
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    return {rule.split()[0]: rule.split()[1:] for rule in content.split("; ")}


def test_libraries_are_the_published_ones():
    table = VENDOR.joinpath("README.md").read_text()
    listed = dict(re.findall(r"\| `(\S+\.js)` \|.*`([0-9a-f]{64})` \|", table))
    assert sorted(listed) == sorted(LIBRARIES)
    for name, expected in listed.items():
        assert hashlib.sha256(VENDOR.joinpath(name).read_bytes()).hexdigest() == expected
    licences = [one.read_text() for one in VENDOR.iterdir() if one.name.startswith("LICENSE")]
    assert len(licences) == 2
    assert all("Permission to use, copy, modify" in one for one in licences)
