"""Metadata that probekit writes, judged by the programs of those who defined its formats."""

import json
import subprocess
from pathlib import Path

import pytest

from probekit.exchange import Push
from tests.exchange.conftest import REPO, URL, corpus, hub, made  # noqa: F401
from tests.judges.environments import environment

pytestmark = [
    pytest.mark.judges,
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
]
ROOT = Path(__file__).resolve().parents[2]
READ = """
import json, sys
from mlcroissant import Dataset
data = Dataset(sys.argv[1], mapping={"repository": sys.argv[2]})
for name in sys.argv[3:]:
    print(json.dumps([
        {k.rpartition("/")[2]: [w.decode() for w in v] if isinstance(v, list) else
            v.decode() if isinstance(v, bytes) else int(v) for k, v in record.items()}
        for record in data.records(name)
    ]))
"""


def run(*words):
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout, ended.stderr


@pytest.mark.parametrize("text", [True, False], ids=["with text", "without"])
def test_croissant(text, hub, made, tmp_path, judged):  # noqa: F811
    python = environment("mlcroissant==1.1.1", "pyarrow")
    push = Push.of([entry.path for entry in made.values()], URL, text=text)
    push.apply()
    repo = tmp_path / "hub" / "datasets" / REPO
    file = repo / "croissant.json"
    _, said = run(python.with_name("mlcroissant"), "validate", "--jsonld", file)
    assert "Done." in said and "not standard" not in said and "error" not in said.lower()
    names = [records["@id"] for records in json.loads(file.read_text())["recordSet"]]
    printed, _ = run(python, "-c", READ, file, repo, *names)
    for line, name in zip(printed.splitlines(), names, strict=True):
        examples = made[name.split("/")[2].partition("-")[0]].examples
        columns = ["row_start", "n_rows", *(("id", "words") if text else ())]
        assert json.loads(line) == examples.table.select(columns).to_pylist()
    what = f"croissant.json of a push {'with' if text else 'without'} its text"
    judged("mlcroissant 1.1.1", what, "valid; reads the same examples")


def test_citation(judged):
    python = environment("cffconvert==2.0.0")
    said, _ = run(python.with_name("cffconvert"), "--validate", "-i", ROOT / "CITATION.cff")
    assert "are valid" in said
    judged("cffconvert 2.0.0", "CITATION.cff", "valid")
