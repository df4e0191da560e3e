"""The code of docs/sklearn.md runs, on what ``probekit demo`` leaves behind."""

import re
from pathlib import Path

import pytest

import probekit
from probekit.backbone import demo_model_folder

PAGE = Path(__file__).parents[2] / "docs" / "sklearn.md"


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    Path("demo/minilm-l6").symlink_to(demo_model_folder(), target_is_directory=True)
    probekit.extract("demo/minilm-l6", "demo-ner", cache="demo/cache")
    location = probekit.Location(cache="demo/cache")
    plan = [
        probekit.TrainSpec(
            model="demo/minilm-l6", task="demo-ner", head=head, select="hold-out:0.1"
        )
        for head in ("last", "p32")
    ]
    probekit.sweep(plan, out="demo/demo-ner.jsonl", location=location)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    scope = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)
    assert scope["probe"].converged_ and scope["probe"].score(*scope["dev"][:2]) > 0.9
    assert scope["scores"].min() > 0.3 and scope["search"].best_params_["layer"] > 1
    assert scope["loss"] < 1
    assert len(scope["probabilities"]) == len(scope["dev"].y)
