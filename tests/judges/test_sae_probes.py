"""The probes of sae-probes' own runner, on the rows that probekit stored, against probekit's.

Where they differ by definition, docs/judged.md says how.
"""

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import probekit
from probekit.sklearn import LayerProbe
from tests.judges.environments import MODELS, environment

pytestmark = pytest.mark.judges

SAE_TASKS = (
    *("22_headline_isobama", "23_headline_ischina", "24_headline_isiran", "41_truthqa_tf"),
    *("95_toxic_is", "96_spam_is", "114_nyc_borough_Manhattan", "115_nyc_borough_Brooklyn"),
    *("117_us_state_FL", "118_us_state_CA", "123_world_country_United_Kingdom"),
    *("124_world_country_United_States", "129_arith_mc_A", "130_temp_cat_Frequency"),
    *("133_context_type_Causality", "134_context_type_Belief_states", "151_it_tick_HR Support"),
    *("152_it_tick_Hardware", "154_athlete_sport_football", "155_athlete_sport_basketball"),
)
SAE_LAYER = 3
SAE_TEXTS = """
import json, sys
from sae_probes.utils_data import get_train_test_indices, get_yvals, read_numbered_dataset_df
tasks = {}
for name in sys.argv[2:]:
    texts, y = read_numbered_dataset_df(name)["prompt"].tolist(), get_yvals(name)
    n_train = min(len(y) - 100, 1024)
    train, test = get_train_test_indices(y, n_train, len(y) - n_train - 1)
    tasks[name] = {"texts": texts, "y": y.tolist(), "train": train.tolist(), "test": test.tolist()}
json.dump(tasks, open(sys.argv[1], "w"))
"""
SAE_RUN = """
import json, sys, warnings
from pathlib import Path
from sae_probes import run_baseline_evals
warnings.simplefilter("ignore")
folder, hook, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
run_baseline_evals(
    model_name="minilm", hook_name=hook, setting="normal", method="logreg", datasets=names,
    results_path=folder / "results", model_cache_path=folder, device="cpu",
)
"""


@pytest.fixture(scope="module")
def sae_tasks(tmp_path_factory):
    """Texts of its tasks, rows of the last token of MiniLM, and what its own runner scores."""
    folder = tmp_path_factory.mktemp("sae")
    python = environment("sae-probes==0.4.2", f"torch=={version('torch').split('+')[0]}")
    texts = (python, "-c", SAE_TEXTS, folder / "texts.json", *SAE_TASKS)
    subprocess.run(texts, check=True, capture_output=True)
    tasks = json.loads((folder / "texts.json").read_text())
    hook = f"blocks.{SAE_LAYER - 1}.hook_resid_post"
    (folder / "model_activations_minilm").mkdir()
    options = probekit.ExtractOptions(
        compute_dtype="float32", dtype="float32", layers=str(SAE_LAYER), keep=("last",)
    )
    for name, task in tasks.items():
        (entry,) = probekit.extract(
            str(MODELS / "minilm-l6"), "texts", splits=["train"], cache=folder / name,
            examples=[(text, f"{y}") for text, y in zip(task["texts"], task["y"], strict=True)],
            options=options, device="cpu",
        )  # fmt: skip
        X = entry.arrays["last"].read(entry.examples.pooled_start)[:, 0].numpy()
        train = task["train"]
        task["fold"] = train[: len(train) - min(len(train) // 5, 100)]
        fitted = X[task["fold"]].astype(np.float64)
        task["X"] = (X - fitted.mean(0)) / fitted.std(0)  # which a probe does by itself
        file = folder / "model_activations_minilm" / f"{name}_{hook}.pt"
        torch.save(torch.from_numpy(task["X"]), file)
    run = (python, "-c", SAE_RUN, folder, hook, *SAE_TASKS)
    subprocess.run(run, check=True, capture_output=True)
    for file in (folder / "results").rglob("*_logreg.json"):
        (scores,) = json.loads(file.read_text())
        tasks[scores["dataset"]]["scores"] = scores
    return tasks


def chosen_auc(task, solver_at):
    """Its protocol: of ten strengths the best on the last rows of train, then all of train."""
    X, y, train, fold = task["X"], np.array(task["y"]), task["train"], task["fold"]

    def auc(fitted, judging, C):
        probe = solver_at(C, len(fitted)).fit(X[fitted], y[fitted])
        return roc_auc_score(y[judging], probe.decision_function(X[judging]))

    strengths = np.logspace(5, -5, 10)
    best = int(np.argmax([auc(fold, train[len(fold) :], C) for C in strengths]))
    return auc(train, task["test"], strengths[best])


@pytest.mark.timeout(3000)
def test_auc_by_sae_probes(judged, sae_tasks):
    """Where it stopped far from an optimum, scikit-learn, which it calls, is let go on to it."""
    apart, stopped = [], []
    for task in sae_tasks.values():
        ours = chosen_auc(task, lambda C, n: LayerProbe(l2=1 / (C * n)))
        difference = abs(ours - task["scores"]["test_auc"])
        if difference < 0.002:
            apart.append(difference)
            continue
        at_optimum = chosen_auc(
            task, lambda C, n: LogisticRegression(C=C, tol=1e-9, max_iter=50_000)
        )
        stopped.append(abs(ours - at_optimum))
    assert len(apart) + len(stopped) == len(SAE_TASKS)
    assert len(stopped) <= 2 and max(stopped, default=0) < 0.001
    what = f"AUC of {len(SAE_TASKS)} of its tasks, layer {SAE_LAYER} of MiniLM-L6, last token"
    result = f"largest difference {max(apart):.4f} in {len(apart)} tasks"
    if stopped:
        result += f"; {max(stopped):.4f} in {len(stopped)}, solved to the optimum by scikit-learn"
    judged("sae-probes 0.4.2", what, result)


SAE_DATA = "import sae_probes; print(sae_probes.__path__[0])"


@pytest.mark.timeout(3000)
def test_the_protocol_is_that_of_its_runner(judged, tmp_path):
    """Raw rows of the cache in its runner, against ``--protocol sae-probes`` from that cache.

    It stops before the optimum, so that rounding decides in some tasks where.
    """
    python = environment("sae-probes==0.4.2", f"torch=={version('torch').split('+')[0]}")
    shown = subprocess.run((python, "-c", SAE_DATA), check=True, capture_output=True, text=True)
    data = Path(shown.stdout.strip()) / "data/cleaned_data"
    names, model = SAE_TASKS[:10], str(MODELS / "minilm-l6")
    hook = f"blocks.{SAE_LAYER - 1}.hook_resid_post"
    (tmp_path / "model_activations_minilm").mkdir()
    options = probekit.ExtractOptions(keep=("last",), layers=str(SAE_LAYER))
    ours = {}
    for name in names:
        task, cache = f"sae-probes/{name}", tmp_path / "cache"
        entries = probekit.extract(model, task, data=data, options=options, cache=cache)
        spec = probekit.TrainSpec(
            model=model, task=task, head="last", layers=str(SAE_LAYER), fit="sae-probes",
            pooling="last",
        )  # fmt: skip
        location = probekit.Location(cache=cache)
        (record,) = probekit.sweep(
            spec, out=tmp_path / "r.jsonl", location=location, predictions=True
        )
        ours[name] = record.scores["test/auroc"]
        rows = {}
        for entry in entries:
            values = entry.arrays["last"].read(entry.examples.pooled_start)[:, 0].float()
            numbers = (int(id.removeprefix("row-")) for id in entry.examples.ids)
            rows |= dict(zip(numbers, values, strict=True))
        X = torch.zeros(max(rows) + 2, values.shape[1])  # one row is drawn for no split
        for number, row in rows.items():
            X[number] = row
        torch.save(X.double(), tmp_path / "model_activations_minilm" / f"{name}_{hook}.pt")
    subprocess.run((python, "-c", SAE_RUN, tmp_path, hook, *names), check=True, capture_output=True)
    apart = []
    for file in (tmp_path / "results").rglob("*_logreg.json"):
        (scores,) = json.loads(file.read_text())
        apart.append(abs(ours[scores["dataset"]] - scores["test_auc"]))
    assert len(apart) == len(names) and np.median(apart) < 1e-3, apart
    assert sum(difference < 0.002 for difference in apart) >= len(names) - 2, apart
    judged(
        "sae-probes 0.4.2",
        f"AUC of {len(names)} tasks by `--protocol sae-probes`, raw rows of the cache",
        f"median difference {np.median(apart):.4f}, {sum(d < 0.002 for d in apart)} below 0.002, "
        f"largest {max(apart):.4f}",
    )
