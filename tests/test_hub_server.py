"""The local Hub answers the real clients as the Hub does, where no other test would see a lapse."""

import hashlib

import pytest
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import GatedRepoError, RevisionNotFoundError

from tests.hub_server import HubServer


def test_it_describes_lists_and_refuses_as_the_hub_does(tmp_path, monkeypatch):
    folder, weights = tmp_path / "tiny", bytes(range(256)) * 400
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "sub" / "model.safetensors").write_bytes(weights)
    repos = {"models/org/tiny": folder, "models/org/shut": folder, "datasets/org/d@refs/x": folder}
    with HubServer(repos, {"models/org/shut": "gated-403"}) as server:
        server.redirect(monkeypatch, tmp_path / "home")
        info = HfApi().model_info("org/tiny", files_metadata=True)
        files = {file.rfilename: file.lfs for file in info.siblings}
        assert files["sub/model.safetensors"].sha256 == hashlib.sha256(weights).hexdigest()
        assert files["config.json"] is None
        assert {item.path for item in HfApi().list_repo_tree("org/tiny")} == {"config.json", "sub"}
        found = HfApi().get_paths_info("org/tiny", ["sub", "no"])
        assert [item.path for item in found] == ["sub"]
        named = HfApi().dataset_info("org/d", revision="refs/x")
        assert hf_hub_download("org/d", "config.json", repo_type="dataset", revision=named.sha)
        with pytest.raises(RevisionNotFoundError):
            HfApi().dataset_info("org/d")
        assert HfApi().model_info("org/shut").gated == "manual"
        with pytest.raises(GatedRepoError):
            hf_hub_download("org/shut", "config.json")
        code = "from huggingface_hub import model_info; print(model_info('org/tiny').sha)"
        assert server.run_python(code, tmp_path / "other").stdout.strip() == info.sha
