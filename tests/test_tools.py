"""The table of architectures: made by the function that makes it, and kept as it prints it."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WAYS = ("family", "spread", "eight", "four")
PAGE = (ROOT / "docs" / "models.md").read_text("utf-8")


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


@pytest.fixture
def large(tools):
    return importlib.import_module("large_models")


def test_the_table_of_large_models_is_what_its_tool_prints(large):
    kept = PAGE.split(large.BEGIN)[1].split(large.END)[0]
    lines = [line for line in kept.splitlines() if line.startswith("| ")][1:]
    rows = [large.Row(**dict(zip(WAYS, line[2:-2].split(" | "), strict=True))) for line in lines]
    assert kept == f"\n{large.table(rows)}\n"
    assert [row.family for row in rows] == list(large.FAMILIES)
    cells = [cell for row in rows for cell in (row.spread, row.eight, row.four)]
    assert all(cell.startswith("works") for cell in cells)
    assert all(row.eight.startswith("works one at a time; ") for row in rows)


def test_a_family_on_the_disk(large, tmp_path):
    large.save_tiny("gpt2", tmp_path / "gpt2")
    found = large.tried(tmp_path / "gpt2", None, {}, device_map=large.ON_DISK)
    assert found == "works"


@pytest.fixture
def tool(tools):
    return importlib.import_module("architectures")


def kept(tool):
    """Return the rows of the table in the documents."""
    return tool.table_of(ROOT / "docs" / "models.md")


@pytest.mark.parametrize(
    ("family", "outcome"),
    [
        ("mt5", "works"),
        ("convbert", "works in batches of one length"),
        ("canine", "refused"),
        ("vit", "refused"),
    ],
)
def test_a_family(tool, family, outcome):
    row = tool.examine(family)
    assert row.outcome == outcome, row
    assert family == "vit" or row in kept(tool)


def test_the_table_is_what_the_tool_writes(tool, tmp_path):
    rows = kept(tool)
    (tmp_path / "models.md").write_text(PAGE.replace("bert", "an old name"), "utf-8")
    tool.write(rows, tmp_path / "models.md")
    of = [
        text.split(tool.BEGIN)[1].split(tool.END)[0]
        for text in ((tmp_path / "models.md").read_text("utf-8"), PAGE)
    ]
    assert of[0] == of[1]
    table = (ROOT / "docs" / "models.csv").read_bytes()
    assert (tmp_path / "models.csv").read_bytes() == table
    assert {row.outcome for row in rows} <= {tool.WORKS, tool.ONE_LENGTH, tool.REFUSED}
    assert len(rows) >= 110 and {row.family for row in rows} <= set(tool.families())


def test_rows_that_differ_are_found(tool, monkeypatch):
    plain = tool._plain_rows
    monkeypatch.setattr(tool, "_plain_rows", lambda *given: (rows + 1 for rows in plain(*given)))
    row = tool.examine("bert")
    assert row.outcome == tool.WRONG and "rows are off by" in row.about


@pytest.mark.slow
def test_every_family(tool):
    rows = tool.run_all(tool.families(), done=None, workers=2)
    assert [row for row in rows if row.outcome != tool.NOT_MADE] == kept(tool)
