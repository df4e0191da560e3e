"""The notebooks run from the first cell to the last, and are kept without what they printed."""

from pathlib import Path

import pytest

from tests.documents.code_blocks import ROOT

nbformat = pytest.importorskip("nbformat", reason="of the extra `docs`")
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path):
    return nbformat.read(path, as_version=4)


@pytest.mark.docs
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # a kernel of this very Python, whatever kernels are installed beside it
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(read(path), timeout=600, resources=resources, kernel_name="python3")
    ran = client.execute()
    shown = [one for cell in ran.cells for one in cell.get("outputs", [])]
    assert shown and all(one.output_type != "error" for one in shown)
    if path.stem == "depth-curve":
        assert any("image/png" in one.get("data", {}) for one in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(not cell.outputs and cell.execution_count is None for cell in code)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


def test_every_notebook_is_on_the_site():
    nav = (ROOT / "zensical.toml").read_text("utf-8")
    assert len(NOTEBOOKS) >= 3
    assert all(f"notebooks/{path.stem}.md" in nav for path in NOTEBOOKS)
