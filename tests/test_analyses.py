"""The analyses: all of them are run by one command, and their tables say which fits had trouble."""

import importlib
import re
from pathlib import Path

import pytest

from tests.results.samples import make_record

ANALYSES = Path(__file__).parents[1] / "analyses"
HELPERS = {"shared.py", "subjects.py", "run_all.py"}


@pytest.fixture
def of_analyses(monkeypatch):
    monkeypatch.syspath_prepend(str(ANALYSES))
    return importlib.import_module


def test_one_command_runs_all_scripts_and_the_list_names_them():
    scripts = {path.name for path in ANALYSES.glob("*.py")} - HELPERS
    commands = (ANALYSES / "run_all.py").read_text(encoding="utf-8")
    assert set(re.findall(r'_path\("(\w+\.py)"\)', commands)) == scripts
    listed = (ANALYSES / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+\.py)`", listed, re.MULTILINE)) == scripts


def test_scores_of_runs_with_a_trouble_have_a_star(of_analyses):
    shared = of_analyses("shared")
    wrong = {"diagnosis": {"converged": False}, "fitter": "lbfgs"}
    records = [make_record("last", test_score=0.5), make_record("p32", test_score=0.6, **wrong)]
    lines = shared.judged("A title", records, "last").splitlines()
    (last, p32), below = lines[4:6], lines[-1]
    assert r"| 50.0 | - |" in last and r"| 60.0\* | +10.0 |" in p32
    assert below == r"\* not converged"
    sound = [records[0], make_record("mean", test_score=0.6)]
    assert "*" not in shared.judged("A title", sound, "last")
