"""The site: built without a warning, every page in its navigation, every link and picture there."""

import importlib
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents.code_blocks import ROOT, pages

CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]


@pytest.fixture
def site(monkeypatch):
    """Return the script that builds it; ``site`` is a module of Python, too."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_navigation(items=CONFIG["nav"]):
    for item in items:
        (value,) = item.values()
        yield from [value] if isinstance(value, str) else in_navigation(value)


def test_every_page_of_the_documents_is_in_the_navigation(site):
    placed = {site.place_of(page.relative_to(ROOT).as_posix()) for page in pages()}
    assert placed <= set(in_navigation())


def test_links_are_those_of_the_site(site):
    text = "[a](../../analyses/results/x.md#t) [b](../../README.md) [c](https://e.org/x) [d](#e)"
    assert site.relink(text, "docs/howto/few-shot.md") == (
        "[a](../analyses/results/x.md#t) [b](../index.md) [c](https://e.org/x) [d](#e)"
    )
    notebook = "[n](docs/notebooks/own-head.ipynb) [f](cache/README.md#the-key)"
    assert site.relink(notebook, "README.md") == (
        "[n](notebooks/own-head.md) [f](reference/cache-format.md#the-key)"
    )


def test_generated_tables_hold_what_the_package_has(site):
    from dataclasses import fields

    from probekit import Record

    commands = site.fill("# Commands\n\n<!-- commands -->\n\nelsewhere\n")
    assert "elsewhere" not in commands and "`--seeds`" in commands
    assert re.findall(r"^## probekit (\w+)$", commands, re.MULTILINE)[:3] == [
        "extract", "train", "sweep",
    ]  # fmt: skip
    table = site.record_fields()
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert named == [one.name for one in fields(Record)]


def test_the_first_sentence_of_a_page(site):
    assert (
        site.first_sentence("# T\n\n```sh\nx\n```\n\n**One [a](b.md)\ntwo.** Three.")
        == "One a two."
    )
    assert site.first_sentence("# T\n\n`x y` is shown:\n\n- a\n") == "`x y` is shown"


class Links(HTMLParser):
    """Collects what a page leads to, and the anchors that it has."""

    def __init__(self):
        super().__init__()
        self.links, self.ids = set(), set()

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.ids |= {of[name] for name in ("id", "name") if of.get(name)}
        self.links |= {of[name] for name in ("href", "src") if of.get(name)}


@pytest.mark.docs
@pytest.mark.timeout(600)
def test_the_site_is_built_and_whole(site):
    pytest.importorskip("zensical", reason="of the extra `docs`")
    assert site.main() == 0  # a warning is an error
    folder = ROOT / CONFIG["site_dir"]
    found = {}
    for path in folder.rglob("*.html"):
        found[path] = Links()
        found[path].feed(path.read_text("utf-8"))
    placed = {page.replace(".md", ".html") for page in in_navigation()}
    assert {folder / page for page in placed} <= set(found)
    index = re.findall(r"^- \[.+\]\((.+)\): .+$", (folder / "llms.txt").read_text(), re.MULTILINE)
    assert sorted(index) == sorted(placed)
    broken = [
        f"{path.relative_to(folder)}: {link}"
        for path, page in found.items()
        if path.name != "404.html"
        for link in page.links
        if not _leads_somewhere(path, link, found)
    ]
    assert not broken, "\n".join(broken)


def _leads_somewhere(path: Path, link: str, found: dict[Path, Links]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return not link.startswith("http:")
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in found or anchor in found[target].ids | {"__skip"}
