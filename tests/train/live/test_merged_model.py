"""The model of a run by itself: as transformers loads it, and what leaves none."""

import pytest
from transformers import AutoModel, AutoTokenizer

from probekit.tuning import METHODS
from tests.cli.console import done, refused
from tests.store.synthetic import folder_bytes
from tests.train.live.trained_runs import asked, moved
from tests.tuning.cases import check_states, states

CUT = [("bert", "bitfit", 2), ("llama", "lora:rank=2:targets=linear", 2)]


@pytest.mark.parametrize(
    ("kind", "method", "depth"),
    [*(("bert", name, None) for name in METHODS if name not in ("bitfit", "prefix")), *CUT],
)
def test_every_method_merges_or_says_why_not(runs_of, kind, method, depth, tmp_path):
    runs, name, into = runs_of(kind), method.partition(":")[0], tmp_path / "of" / "whole"
    typed = asked(name, kind)
    method = method if depth else typed
    apart = METHODS[name].stays_apart
    if not METHODS[name].trains:
        assert "is a saved head on a frozen model" in refused(
            "merge", str(runs.saved(method)[0]), into
        )
    elif name == "full":
        assert "has a whole model already" in refused("merge", str(runs.saved(method)[0]), into)
    elif apart is not None:
        said = refused("merge", str(runs.saved(method)[0]), str(into))
        assert said == f"--method {name}: {apart}" and not into.exists()
    else:
        check_merged(runs, method, depth, into)


def check_merged(runs, method, depth, into):
    """Check that a merged run is a model of its base's form with the states of the run."""
    folder = runs.saved(method, depth)[0]
    assert done("merge", str(folder), str(into)).out.strip() == str(into)
    model, report = AutoModel.from_pretrained(into, output_loading_info=True)
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert not (report["missing_keys"] - pooler or report["unexpected_keys"])
    plain = AutoModel.from_pretrained(runs.model)
    named = dict(plain.named_parameters())
    own = {name: value for name, value in model.named_parameters() if name not in pooler}
    assert set(own) <= set(named) and model.config.num_hidden_layers == (depth or 3)
    differ = sum(int((own[name] != named[name]).sum()) for name in own)
    if method.startswith("diff-prune"):
        assert 0 < differ <= 0.1 * sum(value.numel() for value in own.values())
    tuned, found = runs.tuned(method, depth), list(states(model))
    if depth and runs.kind == "llama":
        tuned[-1] = model.norm(tuned[-1])  # which transformers does after the last block there is
    check_states(tuned, found)
    assert (found[1] - states(plain)[1]).abs().max() > 1e-5
    assert AutoTokenizer.from_pretrained(into).vocab_size


def test_a_base_that_has_moved(bert, tmp_path):
    kept = bert.saved("bitfit", 2)[0]
    run, there = moved(kept, tmp_path / "run", tmp_path / "gone"), tmp_path / "there"
    for command in (("merge", str(run), str(there)), ("extract", str(run), "conll")):
        assert "--model" in refused(*command)
    done("merge", str(run), str(there), "--model", str(bert.model))
    done("merge", str(kept), str(tmp_path / "here"))
    assert folder_bytes(there) == folder_bytes(tmp_path / "here")


def test_what_cannot_be_merged(bert, tmp_path):
    into, run = tmp_path / "whole", bert.saved("bitfit", 2)[0]
    assert "there is no saved run" in refused("merge", str(tmp_path / "nothing"), str(into))
    assert not into.exists()
    (into / "mine").mkdir(parents=True)
    for taken in (into, run / "backbone" / "whole"):
        assert "already exists. Give a new folder." in refused("merge", str(run), str(taken))
    said = refused("merge", str(run), "x" * 300)
    assert "File name too long" in said
