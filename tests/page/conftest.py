"""A headless Chromium, where there is one, and the pages that it opens."""

import shutil
from pathlib import Path

import pytest

from probekit.page.report_page import ReportOptions, write_report
from tests.page.samples import PageReader, hostile_records, whole_records

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCREENSHOTS = Path(__file__).parent.parent.parent / "build" / "screenshots"
"""Pictures to be looked at, in a folder that git ignores."""


@pytest.fixture(scope="session")
def chromium():
    """The browser; tests skip where playwright or Chromium is missing."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install -e '.[browser]'"
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no Chromium ({', '.join(BROWSERS)}): apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # as root, as in a container, Chromium starts without its sandbox alone
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_file(tmp_path_factory):
    """A report of hostile records with everything that a page can show."""
    folder = tmp_path_factory.mktemp("page")
    records = [*hostile_records(folder), *whole_records(folder)]
    return write_report(records, folder / "report.html", ReportOptions(samples=100))


@pytest.fixture
def open_page(chromium, page_file):
    """Return a function that opens the page, and fails if the browser complained of anything."""
    contexts, complaints = [], []

    def open_(path=None, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url)
                if not request.url.startswith(("file:", "blob:", "data:")) else None)  # fmt: skip
        page.goto(f"file://{path or page_file}")
        page.wait_for_selector("#list article, #scores table")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def keep_screenshot():
    """Return a function that keeps a picture of a whole page."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture
def data(page_file):
    return PageReader(page_file.read_text(encoding="utf-8")).data


def expect():
    """Return playwright's assertions, which wait: the page's policy forbids those that evaluate."""
    return pytest.importorskip("playwright.sync_api").expect
