"""The examples of a page in a browser: grids, filters, confusion, search, keyboard."""

import csv
import io
import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest

from probekit.page.example_grids import ExampleGrid
from probekit.page.report_page import ReportOptions, render, write_report
from probekit.results.predictions import Predicted, read_predicted
from tests.page.conftest import expect
from tests.page.samples import HOSTILE, LENGTHS, plain_page, regression_records

pytestmark = pytest.mark.browser


def shown(page):
    """How many examples the filters leave."""
    return int(re.match(r"[\d,]+", page.inner_text("#status"))[0].replace(",", ""))


def test_a_cell_of_the_confusion_leads_to_its_examples(open_page, data):
    page = open_page()
    read = list(csv.reader(io.StringIO(page.evaluate("examples.matrixCsv()"))))
    row, column = 1, 0
    name = f"gold {read[row + 1][0]}, predicted {read[0][column + 1]}: {read[row + 1][column + 1]}"
    cell = page.locator(f"#matrix button[data-row='{row}'][data-column='{column}']")
    assert cell.get_attribute("aria-label") == name
    cell.click()
    assert cell.get_attribute("aria-pressed") == "true"
    assert f", {read[row + 1][column + 1]} words" in page.inner_text("#status")
    for hit in page.locator("article tr.hit").all():
        cells = hit.locator("td bdi").all_text_contents()
        assert (cells[0], cells[-1]) == (read[row + 1][0], read[0][column + 1])
    assert page.evaluate("document.activeElement.id") == "status"
    cell.click()  # once more: all of them again
    assert shown(page) == len(LENGTHS)
    # all cells together are all words
    assert sum(int(one) for line in read[1:] for one in line[1:]) == sum(LENGTHS)


def test_filters_find_what_numpy_finds(open_page, data):
    page = open_page()
    grid = data["grids"][0]
    sentences = data["sentences"][grid["sentences"]]
    predicted, gold, probability = page.evaluate(
        "[[...examples.judge.predicted], [...examples.sentences.gold], "
        "[...examples.judge.probabilities]]"
    )
    rows = sum(LENGTHS)
    right = np.array(predicted).reshape(-1, rows) == np.array(gold)
    sure = np.array(probability).reshape(-1, rows)[-1] / 254
    owner = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    expected = {
        "wrong": ~right[-1], "right": right[-1], "lost": ~right[-1] & right[:-1].any(0),
        "just-lost": ~right[-1] & right[-2], "gained": right[-1] & ~right[:-1].all(0),
        "never": ~right.any(0),
        "differ": (np.array(predicted).reshape(-1, rows)[1:] != predicted[:rows]).any(0),
    }  # fmt: skip
    for kind, rows_found in expected.items():
        page.select_option("[name=kind]", kind)
        assert shown(page) == len(set(owner[rows_found])), kind
        assert f", {rows_found.sum()} words" in page.inner_text("#status"), kind
    page.select_option("[name=kind]", "wrong")
    page.fill("[name=low]", "90")
    page.keyboard.press("Tab")
    assert shown(page) == len(set(owner[~right[-1] & (sure >= 0.898)]))
    page.select_option("[name=gold]", label=sentences["names"][1])
    chosen = ~right[-1] & (sure >= 0.898) & (np.array(gold) == 1)
    assert shown(page) == len(set(owner[chosen]))
    page.select_option("[name=column]", "0")
    page.fill("[name=low]", "0")
    page.keyboard.press("Tab")
    assert shown(page) == len(set(owner[~right[0] & (np.array(gold) == 1)]))


def test_search_and_keyboard(open_page):
    page = open_page()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "search"
    page.keyboard.type("WINDOW.HARMED=4")
    rows = np.arange(sum(LENGTHS)) % len(HOSTILE) == HOSTILE.index("javascript:window.harmed=4")
    count = len(set(np.repeat(np.arange(len(LENGTHS)), LENGTHS)[rows]))
    expect()(page.locator("#status")).to_contain_text(re.compile(f"^{count} of "))
    marked = page.locator("article mark").all_text_contents()
    assert set(marked) == {"window.harmed=4"}
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect()(page.locator("#status")).to_contain_text(re.compile(f"^{len(LENGTHS)} of "))
    assert page.input_value("[name=search]") == ""
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.dataset.sentence") == "1"
    page.keyboard.press("p")
    page.keyboard.press("p")
    assert page.evaluate("document.activeElement.dataset.sentence") == "0"
    page.keyboard.press("]")
    assert "page 2 of 4" in page.inner_text("#status")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.dataset.sentence") == "10"
    page.keyboard.press("[")
    page.keyboard.press("c")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    pressed = page.locator("#matrix button[aria-pressed=true]")
    assert pressed.get_attribute("data-row") == pressed.get_attribute("data-column") == "1"
    page.keyboard.press("?")
    expect()(page.locator("dialog[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect()(page.locator("dialog[open]")).to_have_count(0)


def test_heads_beside_each_other(open_page, data):
    page = open_page()
    place = [one["along"] for one in data["grids"]].index("head")
    page.select_option("[name=grid]", str(place))
    heads = page.locator("article").first.locator("thead th").all_text_contents()
    assert heads == ["word", "gold", "last", "p32"]
    kinds = page.locator("[name=kind] option:not([hidden])")
    assert "wrong, but right before" not in kinds.all_text_contents()


def test_twenty_thousand_examples_do_not_stall(open_page, tmp_path):
    rng = np.random.default_rng(0)
    lengths = rng.integers(15, 36, 20_000)  # of sentences of news
    rows = int(lengths.sum())
    gold = rng.integers(0, 9, rows)
    words = np.split(rng.choice(["word", "of", "the", "quoted"], rows), np.cumsum(lengths)[:-1])
    texts = tuple(tuple(one.tolist()) for one in words)
    ids = tuple(f"dev-{n}" for n in range(len(lengths)))
    first = Predicted(
        ids=ids, offsets=np.concatenate([[0], np.cumsum(lengths)]), content="classes",
        predicted=gold, gold=gold, names=tuple(f"class {n}" for n in range(9)), texts=texts,
    )  # fmt: skip
    found = [replace(first, predicted=np.where(rng.random(rows) < 0.6 + 0.02 * depth, gold, 0))
             for depth in range(13)]  # fmt: skip
    grid, sentences = ExampleGrid(
        title="large", along="depth", split="dev", seed="seed 0", found=found,
        columns=list(map(str, range(13))), probabilities=rng.random((13, rows)),
    ).to_json(20_000)  # fmt: skip
    out = tmp_path / "large.html"
    large = {"grids": [grid | {"sentences": 0}], "sentences": [sentences]}
    out.write_bytes(render(plain_page(examples=large)))
    begin = time.perf_counter()
    page = open_page(out)
    opened = time.perf_counter() - begin
    assert shown(page) == 20_000
    slowest = page.evaluate(
        """() => {
            const time = (act) => {
                const begin = performance.now();
                act();
                return performance.now() - begin;
            };
            const set = (name, value) => () => {
                examples.field[name].value = value;
                examples.filter();
            };
            return {
                lost: time(set("kind", "lost")), search: time(set("search", "quoted")),
                order: time(set("order", "sure")), page: time(() => examples.turn(1)),
                column: time(() => { examples.field.column.value = 3; examples.filter(true); }),
            };
        }"""
    )
    print(json.dumps({"MB": out.stat().st_size / 1e6, "opened": opened, **slowest}))
    assert opened < 30
    assert max(slowest.values()) < 2_000, slowest


@pytest.mark.parametrize(
    ("texts", "paragraphs"),
    [
        (tuple(HOSTILE), [(one,) for one in HOSTILE]),
        (tuple(zip(HOSTILE, HOSTILE[::-1], strict=True)),
         list(zip(HOSTILE, HOSTILE[::-1], strict=True))),
        ((), [()] * len(HOSTILE)),  # of a version that did not keep them
    ],
    ids=["texts", "pairs", "no texts"],
)  # fmt: skip
def test_whole_texts_stand_above_their_predictions(open_page, tmp_path, texts, paragraphs):
    gold = np.arange(len(HOSTILE)) % 2
    found = Predicted(
        ids=tuple(f"dev-{n}" for n in range(len(gold))), offsets=np.arange(len(gold) + 1),
        content="classes", predicted=gold, gold=gold, names=("no", "yes"), texts=texts,
    )  # fmt: skip
    grid, sentences = ExampleGrid(
        title="texts", along="depth", split="dev", seed="seed 0", columns=["0 = emb", "1"],
        found=[replace(found, predicted=1 - gold), found],
        probabilities=np.full((2, len(gold)), 0.75),
    ).to_json(100)  # fmt: skip
    out = tmp_path / "texts.html"
    examples = {"grids": [grid | {"sentences": 0}], "sentences": [sentences]}
    out.write_bytes(render(plain_page(examples=examples)))
    page = open_page(out)
    articles = page.locator("article")
    expect()(articles).to_have_count(len(HOSTILE))
    for article, said in zip(articles.all(), paragraphs, strict=True):
        assert article.locator("p").all_text_contents() == list(said)
        assert article.locator("tbody tr").count() == 1
        assert article.locator("td.right").count() == article.locator("td.wrong").count() == 1
    page.select_option("[name=kind]", "gained")
    assert shown(page) == len(HOSTILE)
    read = list(csv.reader(io.StringIO(page.evaluate("examples.csv()"))))
    assert [row[1] for row in read[1:]] == [" | ".join(said) for said in paragraphs]


def test_values_are_some_way_off(open_page, tmp_path, keep_screenshot):
    records = regression_records(tmp_path)
    out = write_report(records, tmp_path / "values.html", ReportOptions(samples=100))
    page = open_page(out)
    found = [read_predicted(record.predictions)[1]["dev"] for record in records]
    errors = np.abs(np.stack([one.predicted for one in found]) - found[0].gold)
    assert shown(page) == 60
    for of, seen in (("values", True), ("classes", False)):
        parts = page.locator(f"#examples :not(option)[data-of={of}]").all()
        assert parts and all(part.is_visible() == seen for part in parts)
    page.select_option("[name=order]", "far")
    first = page.locator("article").first
    assert int(first.get_attribute("data-sentence")) == errors[2].argmax()
    assert f"off by {errors[2].max():.2f}" in first.locator("h3").inner_text()
    page.select_option("[name=kind]", "further")
    assert shown(page) == (errors[2] > errors[:2].min(0)).sum()
    page.select_option("[name=kind]", "nearer")
    assert shown(page) == (errors[2] < errors[:2].min(0)).sum()
    page.fill("[name=least]", "0.5")
    page.locator("[name=least]").blur()
    assert shown(page) == ((errors[2] < errors[:2].min(0)) & (errors[2] >= 0.5)).sum()
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    assert shown(page) == 60 and page.input_value("[name=kind]") == "all"
    first.scroll_into_view_if_needed()
    expect()(first.locator("td.value")).to_have_count(3)
    read = list(csv.reader(io.StringIO(page.evaluate("examples.csv()"))))
    assert read[0][2:] == ["gold", "depth 0 = emb", "depth 1", "depth 2"]
    numbers = np.array([row[2:] for row in read[1:]], float).T
    expected = [found[0].gold, *(one.predicted for one in found)]
    np.testing.assert_allclose(numbers, expected, rtol=1e-6)
    assert page.evaluate("window.harmed") is None
    keep_screenshot(page, "values")
