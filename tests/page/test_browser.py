"""The page in a browser, opened as a file: what a reader sees, clicks and types."""

import csv
import io
import re

import numpy as np
import pytest

from probekit.page.report_page import ReportOptions, write_report
from tests.page.conftest import expect
from tests.page.samples import HOSTILE, LABELS, LENGTHS, MODEL, TASK, regression_records
from tests.results.samples import make_record

pytestmark = pytest.mark.browser


def test_pictures_have_the_size_and_the_ink_of_the_page(open_page):
    page = open_page()
    expect()(page.locator("main > section:visible")).to_have_count(page.locator("nav a").count())
    figures = page.locator("figure")
    assert figures.count() >= 5
    for figure in figures.all():
        svg = figure.locator("svg[role=img]")
        assert svg.get_attribute("aria-label") == figure.locator("h3").text_content()
        assert 0 < svg.bounding_box()["width"] <= figure.bounding_box()["width"]
        assert svg.locator(".marks title").count() > 0
    ink = "getComputedStyle(document.querySelector('figure svg text')).fill"
    page.select_option("#theme", "dark")
    assert _luminance(page.evaluate(ink)) > 0.5
    page.select_option("#theme", "light")
    assert _luminance(page.evaluate(ink)) < 0.05


def test_pointing_at_a_point_says_score_interval_and_seeds(open_page):
    page = open_page()
    said = page.locator("#amount .marks title").first.text_content()
    for text in ("95 % from: ", "seeds: 3", "shots K"):
        assert text in said


def test_hostile_texts_are_read_and_do_nothing(open_page):
    page = open_page()
    page.locator("#matrix button").first.click()
    page.keyboard.press("r")
    page.wait_for_timeout(100)
    words = page.locator("article").first.locator("tbody th bdi").all_text_contents()
    assert words == [HOSTILE[row] for row in range(LENGTHS[0])]
    assert page.evaluate("window.harmed") is None
    heading = page.locator("h1").text_content()
    assert MODEL.rpartition("/")[2] in heading and TASK in heading
    names = set(page.locator("#matrix tbody th bdi").all_text_contents())
    assert names == set(LABELS)
    expect()(page.locator("img, iframe, object, svg[onload], h1 h1, main script")).to_have_count(0)


def test_numbers_are_copied_and_saved_as_csv(open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.locator("figure").first.get_by_text("Numbers").click()
    rows = page.locator("figure").first.locator("details tr").all()
    cells = [row.locator("th, td").all_text_contents() for row in rows]
    with page.expect_download() as download:
        page.locator("figure").first.get_by_text("Save CSV").click()
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == cells
    page.locator("figure").first.get_by_text("Copy CSV").click()
    expect()(page.locator("#said")).to_have_text("CSV copied")
    page.locator("#confusion .csv button").first.click()
    matching = list(csv.reader(io.StringIO(page.evaluate("examples.csv()"))))
    assert len(matching) == sum(LENGTHS) + 1
    assert [row[1] for row in matching[1:5]] == list(HOSTILE[:4])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_readable(open_page, keep_screenshot, scheme, width):
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    keep_screenshot(page, f"report-{scheme}-{width}")
    for selector in ("body", "#made", "td.right", "td.wrong", "button", "nav a", "figcaption p"):
        assert _contrast(page, selector) >= 4.5, selector


def test_a_theme_that_is_chosen_stays_one(open_page):
    page = open_page(color_scheme="light")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.select_option("#theme", "dark")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert _luminance(before) > 0.9 and _luminance(after) < 0.05


def test_print_leaves_controls_out_and_is_light(open_page, keep_screenshot):
    page = open_page(color_scheme="dark")
    page.emulate_media(media="print")
    page.wait_for_timeout(300)
    for selector in ("nav", "#filters", ".csv", ".command button"):
        assert not page.locator(selector).first.is_visible()
    assert page.locator("figure").first.is_visible()
    assert _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.99
    assert len(page.pdf()) > 10_000
    keep_screenshot(page, "report-print")


def _contrast(page, selector):
    """WCAG's contrast of an element's text with the first ground behind it that is opaque."""
    ink, ground = page.evaluate(
        """(selector) => {
            const plain = (colour) => {  // whatever form the browser gives a colour in
                const canvas = new OffscreenCanvas(1, 1).getContext("2d");
                canvas.fillStyle = colour;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data];
            };
            let node = document.querySelector(selector);
            const ink = plain(getComputedStyle(node).color);
            const ground = (node) => plain(getComputedStyle(node).backgroundColor);
            while (ground(node)[3] < 255) node = node.parentElement;
            return [ink, ground(node)];
        }""",
        selector,
    )
    one, two = (_luminance(f"rgb({','.join(map(str, colour[:3]))})") for colour in (ink, ground))
    return (max(one, two) + 0.05) / (min(one, two) + 0.05)


def _luminance(colour):
    """WCAG's relative luminance of ``rgb(r, g, b)``."""
    values = np.array([int(one) for one in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_a_note_is_read_first_and_is_text(open_page, tmp_path):
    note = "Is 3 < 4? <img src=x onerror='window.harmed = 6'> Layer 1 knows it."
    options = ReportOptions(samples=100, note=note)
    page = open_page(write_report(regression_records(tmp_path), tmp_path / "n.html", options))
    assert page.inner_text("#note") == note and page.evaluate("window.harmed") is None
    assert not page.is_visible("#commands")
    page.click("text=Commands that make it again")
    assert "probekit depth" in page.inner_text("#commands")


def test_a_page_without_predictions_has_the_other_parts(open_page, tmp_path):
    out = write_report([make_record(seed=seed) for seed in range(3)], tmp_path / "few.html",
                       ReportOptions(samples=100))  # fmt: skip
    page = open_page(out)
    assert page.locator("#scores table").is_visible()
    assert page.locator("#weights figure").is_visible()
    assert not page.locator("#examples").is_visible()
    assert "--predictions" in page.inner_text("#absent")
