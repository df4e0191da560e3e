"""Random weights: transformers' own, by the seed alone, and never mixed with the trained ones."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import BackboneError
from probekit.extraction.maintenance import verify_rows
from probekit.features import Location, open_features
from tests.extraction.extracted import all_rows, reference_rows, run


def test_rows_are_those_of_transformers_own_initialisation(bert, made):
    entry = made(random_init=3)
    torch.manual_seed(3)
    config = AutoConfig.from_pretrained(bert)
    model = AutoModel.from_config(config, add_pooling_layer=False).eval()
    expected = reference_rows(model, AutoTokenizer.from_pretrained(bert), entry)
    torch.testing.assert_close(all_rows(entry), expected, rtol=1e-4, atol=1e-5)
    assert verify_rows(entry, 40).passed, "the same weights are drawn again"


def test_entries_lie_under_a_name_of_their_own(bert, corpus, made):
    name, seeds = Path(bert).name, (None, 3, 1)
    entries = [made() if seed is None else made(random_init=seed) for seed in seeds]
    names = [name, f"{name}-random3", f"{name}-random1"]
    assert [entry.manifest.model for entry in entries] == names
    identities = [entry.manifest.request["model"] for entry in entries]
    assert [identity["random_init"] for identity in identities] == list(seeds)
    assert len({identity["weights"] for identity in identities}) == 3
    location = Location(cache=entries[2].path.parents[2])
    splits = open_features(names[2], str(corpus), "2", location)
    assert splits.entries["train"].path == entries[2].path


def test_the_global_random_state_is_left_alone(bert):
    inspection = inspect_backbone(bert, random_init=7)
    torch.manual_seed(11)
    expected = torch.randn(3)
    torch.manual_seed(11)
    load_backbone(inspection, compute_dtype="bfloat16")
    assert torch.equal(torch.randn(3), expected)


def test_no_weights_are_read(bert, corpus, made, tmp_path):
    bare = shutil.copytree(bert, tmp_path / "model")
    (bare / "model.safetensors").unlink()
    with pytest.raises(BackboneError, match="weights"):
        inspect_backbone(str(bare))
    drawn, original = run(bare, corpus, tmp_path / "cache", random_init=3), made(random_init=3)
    assert drawn.manifest.key == original.manifest.key
    torch.testing.assert_close(all_rows(drawn), all_rows(original))


def test_another_configuration_draws_other_weights(bert, tmp_path):
    copy = shutil.copytree(bert, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"initializer_range": 0.5}), "utf-8")
    one, other = (inspect_backbone(str(f), random_init=0).info for f in (bert, copy))
    assert one.identity.weights != other.identity.weights
