"""Tables of architectures are as their tools print them; measures of the package are right."""

import importlib
from pathlib import Path

import pytest
import transformers
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "models.md").read_text("utf-8")


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


@pytest.fixture
def large(tools):
    return importlib.import_module("large_models")


def test_the_table_of_large_models_is_what_its_tool_writes(large, tmp_path):
    table = ROOT / "docs" / "large_models.csv"
    rows = large.table_of(ROOT / "docs" / "models.md")
    assert PAGE.split(large.BEGIN)[1].split(large.END)[0] == f"\n{large.summary(rows)}\n"
    large.write_table(rows, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == table.read_bytes()
    assert [row.family for row in rows] == list(large.FAMILIES)
    cells = [cell for row in rows for cell in (row.on_disk, row.in_8_bits, row.in_4_bits)]
    assert all(cell.startswith("works") for cell in cells)
    assert all(row.in_8_bits.startswith("works one at a time; ") for row in rows)


def test_a_summary_tells_outcomes_and_how_far_rows_move(large):
    rows = [
        large.Row(family=str(moved), on_disk="works", in_8_bits=f"works; rows move by {moved}%",
                  in_4_bits="refused: no")
        for moved in (1.5, 2.0, 9.0)
    ]  # fmt: skip
    assert large.summary(rows).splitlines()[2:] == [
        "| blocks on the disk | 3 work | |",
        "| `8bit` | 3 work | 1.5 to 9.0 %, median 2.0 % |",
        "| `4bit` | 3 refused: no | |",
    ]


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
    assert len(rows) >= 110
    pins = (ROOT / "constraints.txt").read_text().split()
    if f"transformers=={transformers.__version__}" in pins:  # an older one lacks some of them
        assert {row.family for row in rows} <= set(tool.families())


def test_rows_that_differ_are_found(tool, monkeypatch):
    plain = tool._plain_rows
    monkeypatch.setattr(tool, "_plain_rows", lambda *given: (rows + 1 for rows in plain(*given)))
    row = tool.examine("bert")
    assert row.outcome == tool.WRONG and "rows are off by" in row.about


@pytest.mark.slow
def test_every_family(tool):
    rows = tool.run_all(tool.families(), done=None, workers=2)
    assert [row for row in rows if row.outcome != tool.NOT_MADE] == kept(tool)


@pytest.fixture
def house(tools):
    return importlib.import_module("measure_house")


@pytest.fixture
def package(tmp_path, house):
    """Return a function that writes a package of these files, and reads it."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / "probekit" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return house.read(tmp_path / "probekit")

    return make


LEVELS = [{"errors"}, {"heads"}, {"train", "train.saved"}, {"train.sweeps"}]


def test_rooms_and_arrows(house, package):
    modules = package(
        {
            "__init__.py": "from probekit.heads import mean\n",  # on demand: no arrow
            "errors.py": "def late():\n    from probekit.heads.mean import Mean\n",  # up
            "heads/__init__.py": "",
            "heads/mean.py": "import probekit.errors\nimport os\n",  # a circle with errors
            "train/__init__.py": "from probekit.train.sweeps import rows\n",  # up, in one room
            "train/rows.py": "from probekit import __version__, heads\n",  # one up, one down
            "train/sweeps/rows.py": "from probekit.heads import mean\nfrom probekit import other\n",
            "other.py": "",
            "train/__init__.pyi": "from .rows import f as f\n",  # on demand
        }
    )
    rows = dict(house.room_rows(modules, LEVELS))
    assert rows == {
        "rooms: packages, files": "2, 3",
        # errors to heads, heads to errors, train to heads, the face and other
        "arrows between rooms / upward / circles": "5 / 4 / 1",
        "files / under 60 lines / over 450": "9 / 9 / 0",
        "base names that stand for several files / for how many": "1 / 2",
    }


LINES = '''"""A module,
of two lines."""

# a comment
LIMIT = 3  # another
"""What is said below a constant."""


@cache
def f(
    x,
):
    """Docstring."""

    text = """two
lines"""
    return x
'''


def test_lines(house, package):
    (module,) = package({"a.py": LINES})
    assert house.code_and_comments(module) == (8, 2)
    rows = dict(house.code_rows([module]))
    assert rows["lines of code / all lines"] == "8 / 17"
    assert rows["lines with a comment"] == "11.8%"
    assert rows["lines that are imports"] == "0.0%"
    assert rows["functions: lines p50 / p90 / max"] == "1: 7 / 7 / 7"


def test_constraints_are_exact_so_that_an_audit_can_read_them():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    assert all([part.operator for part in pin.specifier] == ["=="] for pin in pins)
    assert not [pin.name for pin in pins if pin.url or pin.marker or pin.extras]
    assert len({canonicalize_name(pin.name) for pin in pins}) == len(pins)
