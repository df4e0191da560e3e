"""The code of every page runs, in order, in a folder that has what `probekit demo` leaves."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.code_blocks import ROOT, blocks, names_of, pages
from tests.documents.run_page import SETTINGS
from tests.documents.warm import warm_commands

RUNNER = Path(__file__).parent / "run_page.py"
BIN = Path(sys.executable).parent
FRESH = ("docs/tutorial.md",)
"""Pages that begin with an empty cache; others find the entries of demo-ner, which takes time."""

RUNNING = [page for page in pages() if any(one.runs for one in blocks(page.read_text("utf-8")))]


def run(page: Path, folder: Path, commands: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["PATH"] = os.pathsep.join([str(commands), str(BIN), os.environ["PATH"]])
    inherited = os.environ.get("PYTHONPATH")
    if inherited:
        environment["PYTHONPATH"] += os.pathsep + inherited
    return subprocess.run(
        [sys.executable, RUNNER, page],
        cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with a command ``probekit`` that has imported what it needs."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        with warm_commands(tmp_path_factory.mktemp("warm")) as commands:
            yield commands


@pytest.fixture(scope="session")
def filled(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of demo-ner (do not change it)."""
    folder = with_demo_model(tmp_path_factory.mktemp("filled"))
    page = folder / "page.md"
    page.write_text("```sh\nprobekit extract demo/minilm-l6 demo-ner\n```\n")
    ended = run(page, folder, warm)
    assert ended.returncode == 0, ended.stdout
    return folder / "cache"


def with_demo_model(folder: Path) -> Path:
    from probekit.backbone import demo_model_folder

    (folder / "demo").mkdir()
    (folder / "demo" / "minilm-l6").symlink_to(demo_model_folder(), target_is_directory=True)
    return folder


@pytest.mark.docs
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", RUNNING, ids=names_of)
def test_the_code_of_a_page_runs(page, warm, filled, tmp_path):
    with_demo_model(tmp_path)
    if names_of(page) not in FRESH:
        shutil.copytree(filled, tmp_path / "cache")
    ended = run(page, tmp_path, warm)
    assert ended.returncode == 0, ended.stdout
    print(ended.stdout)


def test_a_page_whose_code_fails_is_found(tmp_path):
    page = tmp_path / "page.md"
    for code in ("```sh\nfalse\necho on\n```\n", "```python\nraise ValueError('x')\n```\n"):
        page.write_text(code)
        ended = run(page, tmp_path, BIN)
        assert ended.returncode != 0
        assert "page.md:2" in ended.stdout and "\non\n" not in ended.stdout
