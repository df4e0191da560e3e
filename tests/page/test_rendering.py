"""The page as a file: texts stay texts, nothing is loaded, and only its own scripts may run."""

import base64
import hashlib
import json
import re

import pytest

from probekit.page.page_figures import page_figures
from probekit.page.report_page import ScoreTable, render, script_json
from probekit.page.rerun_commands import ENTRY_COLUMNS
from tests.page.samples import HOSTILE, PageReader, links_of, plain_page
from tests.results.samples import make_record


def _page(text):
    """Every part of a page, with one text wherever a stranger's may stand."""
    entry = dict.fromkeys(ENTRY_COLUMNS, text)
    table = ScoreTable(
        title=text, headings=[text], words=[True], rows=[[text]], notes=[text], csv=text
    )
    clean = text.encode("utf-8", "replace").decode().translate(dict.fromkeys(range(32)))
    names = {"model": f"org/{clean}", "task": clean, "label": clean}
    records = [make_record(seed=seed, shots=8 + seed, **names) for seed in range(2)]
    figures, _ = page_figures(records, None, 100)
    assert {one.section for one in figures} == {"amount", "weights"}
    return plain_page(
        title=text, note=text, facts={text: text}, commands=[text], absent=[text],
        entries=[entry], tables=[table], figures=figures,
        examples={"grids": [{"title": text}], "sentences": [{"texts": [text]}]},
    )  # fmt: skip


HARD = [" ".join([*HOSTILE, "\u0130", "a $x$ and $\\frac$"]), "half \ud800 of a pair \x00\x1f\x7f"]


@pytest.fixture(scope="module")
def clean():
    return PageReader(render(_page("clean")).decode())


@pytest.mark.parametrize("text", HARD)
def test_a_text_comes_back_as_it_was_and_ends_no_element(clean, text):
    read = PageReader(render(_page(text)).decode())
    assert read.data["sentences"] == [{"texts": [text]}]

    def of_the_page(elements):  # lines of a title are elements of their own
        return [tag for tag, _ in elements if tag not in ("text", "g")]

    assert of_the_page(read.elements) == of_the_page(clean.elements)
    assert not [name for _, attrs in read.elements for name in attrs if name.startswith("on")]
    if "\x00" not in text and "\ud800" not in text:  # which no HTML can hold
        for name in ("h1", "pre", "note", "absent", "facts"):
            assert " ".join(text.split()) in " ".join(" ".join(read.texts(name)).split()), name


def test_text_of_a_picture_is_text():
    records = [make_record(shots=shots, task="<b>task") for shots in (8, 32)]
    (curve, _), _ = page_figures(records, None, 100)
    read = PageReader(curve.svg)
    assert {"8", "32", "p32", "test span F1 (%)"} <= set(read.texts("text"))
    points = [attrs for tag, attrs in read.elements if tag == "circle"]
    assert len(points) == 2 == len(curve.rows)
    assert "shots K (K x classes sentences, drawn at random): 8" in read.texts("circle")[0]
    colours = re.findall("(?<=: )#[0-9a-f]{6}", curve.svg)
    assert not {"#000000", "#ffffff", "#d9d9d9"} & set(colours)
    assert "currentColor" in curve.svg and "var(--ground)" in curve.svg
    assert curve.title == "tiny-model, <b>task, ner" and "<b>" not in curve.svg


def test_json_of_a_script_holds_no_sign_of_markup_and_no_number_that_is_none():
    text = script_json({"".join(HOSTILE): list(HOSTILE)})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"".join(HOSTILE): list(HOSTILE)}
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json({"score": float("nan")})


def test_nothing_is_loaded_from_elsewhere_and_the_policy_names_every_script():
    page = PageReader(render(plain_page()).decode())
    assert links_of(page) == []
    named = {attrs.get("http-equiv"): attrs.get("content") for tag, attrs in page.elements}
    rules = named["Content-Security-Policy"].split("; ")
    policy = {rule.split()[0]: rule.split()[1:] for rule in rules}
    assert policy["default-src"] == ["'none'"]
    kinds = ["type" in attrs for tag, attrs in page.elements if tag == "script"]
    plain = [text for text, typed in zip(page.scripts, kinds, strict=True) if not typed]
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in plain]
    assert plain and policy["script-src"] == [f"'sha256-{one}'" for one in digests]
