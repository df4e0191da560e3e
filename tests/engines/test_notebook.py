"""A notebook that is executed: its workers, its progress bars, and what its cells show."""

from importlib.util import find_spec

import nbformat
import pytest
from nbclient import NotebookClient

from tests.planted import MODEL, TASK, plant_all


def executed(folder, *cells):
    """Execute cells one after the other in a kernel; return the outputs of each."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in book.cells]


def text_of(outputs):
    return "".join(one.get("text", "") for one in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("widgets", [True, False])
def test_a_sweep_on_workers_runs_from_a_notebook(tmp_path, widgets):
    if widgets and find_spec("ipywidgets") is None:
        pytest.skip("ipywidgets is not installed")
    plant_all(tmp_path / "cache", sentences=20)
    hide = "" if widgets else "import sys; sys.modules['ipywidgets'] = None"
    prepared, swept, shown, features, fitted = executed(
        tmp_path,
        f"{hide}\nimport logging, probekit\n"
        f"plan = [probekit.TrainSpec(model={MODEL!r}, task={TASK!r}, head=head, seed=seed,\n"
        "                           fit='lbfgs', select='cv:5')\n"
        "        for head in ('last', 'mean') for seed in (0, 1)]",
        "records = probekit.sweep(plan, out='runs.jsonl', workers=2, progress=True)",
        "records",
        f"features = probekit.open_features({MODEL!r}, {TASK!r})\nfeatures",
        "from probekit.sklearn import LayerProbe\n"
        "X, y, words = features.rows('train')\n"
        "LayerProbe(layer=3, l2=0.1).fit(X, y).score(X, y) > 0.9",
    )
    assert prepared == []
    kinds = {kind for one in swept for kind in one.get("data", {})}
    if widgets:
        assert "application/vnd.jupyter.widget-view+json" in kinds
        assert "arning" not in text_of(swept)
    else:
        assert not kinds and "train: 100%" in text_of(swept)
        assert "IProgress" not in text_of(swept)
    assert '<div class="probekit">' in shown[0]["data"]["text/html"]
    assert "mean" in shown[0]["data"]["text/html"]
    assert "planted on conll" in features[0]["data"]["text/html"]
    assert fitted[0]["data"]["text/plain"] == "True"
    assert (tmp_path / "runs.jsonl").read_text().count("\n") == 4
