"""The measures of the package, on packages small enough to be counted by hand."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("measure_house")


@pytest.fixture
def package(tmp_path, tool):
    """Return a function that writes a package of these files, and reads it."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / "probekit" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tool.read(tmp_path / "probekit")

    return make


LEVELS = [{"errors"}, {"heads"}, {"train", "train.saved"}, {"train.sweeps"}]


def test_rooms_and_arrows(tool, package):
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
    rows = dict(tool.room_rows(modules, LEVELS))
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


def test_lines(tool, package):
    (module,) = package({"a.py": LINES})
    assert tool.code_and_comments(module) == (8, 2)
    rows = dict(tool.code_rows([module]))
    assert rows["lines of code / all lines"] == "8 / 17"
    assert rows["lines with a comment"] == "11.8%"
    assert rows["lines that are imports"] == "0.0%"
    assert rows["functions: lines p50 / p90 / max"] == "1: 7 / 7 / 7"
