"""The page on own heads runs as it stands, and so does the package that it shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from probekit.base import plugins
from probekit.probe.heads import HEADS
from probekit.testing.head_checks import check_head
from tests.planted import MODEL, TASK, plant_all

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "howto" / "own-head.md").read_text("utf-8")
PACKAGE = ROOT / "examples" / "plugin"


@pytest.fixture
def nothing_registered(monkeypatch):
    monkeypatch.setattr(plugins, "_GIVEN", {kind: {} for kind in plugins.KINDS})


def test_the_page_works_as_written(tmp_path, monkeypatch, nothing_registered):
    plant_all(tmp_path / "cache", sentences=20)
    text = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    text = text.replace("demo/minilm-l6", MODEL).replace("demo-ner", TASK)
    for long, short in (("workers=2", "workers=1"), ('"search"', '"search", epochs=1, evals=1')):
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "page.py").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = __import__("page")
    monkeypatch.delitem(sys.modules, "page")
    assert page.result.layers == (0, 1, 2, 3)
    assert [one.head for one in page.records] == ["middle", "middle", "last", "last"]
    assert page.records[0].weights == {}


def test_the_package_keeps_the_contract_and_is_the_one_of_the_page(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    check_head(__import__("probekit_middle").Middle)
    assert '"head.middle" = "probekit_middle:Middle"' in PAGE
    assert '"head.middle" = "probekit_middle:Middle"' in (PACKAGE / "pyproject.toml").read_text()
    assert "middle" not in HEADS


@pytest.mark.slow
def test_an_installed_package_adds_a_head_to_the_command_line(tmp_path):
    source = shutil.copytree(PACKAGE, tmp_path / "source")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(source)], check=True)
    cache = plant_all(tmp_path / "cache")
    paths = [str(ROOT), str(tmp_path / "site")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*arguments):
        command = [sys.executable, "-m", "probekit", *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "(probekit-middle 0.1.0)" in run("heads")
    of_two = ["--head", "middle,last", "--seeds", 2, "--workers", 2, "--epochs", 1]
    run("sweep", MODEL, TASK, *of_two, "--cache", cache, "--out", "runs.jsonl")
    assert "middle" in run("table", "runs.jsonl")
