"""The local Hub answers the real clients: description, files, faults."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub_clients import dead_endpoint, redirect
from tests.hub_server import HubServer

WEIGHTS = bytes(range(256)) * 400


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    tiny = tmp_path / "tiny"
    (tiny / "sub").mkdir(parents=True)
    (tiny / "config.json").write_text('{"a": 1}')
    (tiny / "sub" / "model.safetensors").write_bytes(WEIGHTS)
    names = ("tiny", "locked", "shut", "ill")
    repos = {f"models/org/{name}": tiny for name in names} | {"datasets/org/d@refs/x": tiny}
    faults = {"models/org/locked": "gated-401", "models/org/shut": "gated-403"}
    faults["models/org/ill"] = "error-500"
    drops = {"models/org/tiny/sub/model.safetensors": 1}
    with HubServer(repos, faults, drops) as server:
        server.redirect(monkeypatch, tmp_path / "home")
        yield server


def test_model_info_lists_files_with_their_sha256(hub: HubServer) -> None:
    info = HfApi().model_info("org/tiny", files_metadata=True)
    files = {file.rfilename: file for file in info.siblings or []}
    assert set(files) == {"config.json", "sub/model.safetensors"}
    lfs = files["sub/model.safetensors"].lfs
    assert lfs is not None
    assert lfs.sha256 == hashlib.sha256(WEIGHTS).hexdigest()
    assert files["config.json"].lfs is None
    assert HfApi().model_info("org/tiny", revision=info.sha).sha == info.sha


def test_a_dropped_download_is_resumed_to_the_same_bytes(
    hub: HubServer, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(snapshot_download("org/tiny"))
    assert (folder / "sub" / "model.safetensors").read_bytes() == WEIGHTS
    gets = [line for line in hub.requests if line.startswith("GET") and "safetensors" in line]
    assert len(gets) == 2


def test_tree_and_paths_info(hub: HubServer) -> None:
    api = HfApi()
    top = {item.path for item in api.list_repo_tree("org/tiny")}
    assert top == {"config.json", "sub"}
    everything = {item.path for item in api.list_repo_tree("org/tiny", recursive=True)}
    assert everything == {"config.json", "sub", "sub/model.safetensors"}
    assert [item.path for item in api.get_paths_info("org/tiny", ["sub", "no"])] == ["sub"]


def test_a_revision_served_under_its_name(hub: HubServer) -> None:
    info = HfApi().dataset_info("org/d", revision="refs/x")
    path = hf_hub_download("org/d", "config.json", repo_type="dataset", revision=info.sha)
    assert Path(path).read_text() == '{"a": 1}'
    with pytest.raises(RevisionNotFoundError):
        HfApi().dataset_info("org/d")


@pytest.mark.parametrize(("name", "status"), [("org/locked", 401), ("org/shut", 403)])
def test_gated_files_are_refused_but_described(hub: HubServer, name: str, status: int) -> None:
    assert HfApi().model_info(name).gated == "manual"
    with pytest.raises(GatedRepoError) as caught:
        hf_hub_download(name, "config.json")
    assert caught.value.response.status_code == status


def test_missing_repository_revision_and_file(hub: HubServer) -> None:
    with pytest.raises(RepositoryNotFoundError):
        HfApi().model_info("org/absent")
    with pytest.raises(RevisionNotFoundError):
        HfApi().model_info("org/tiny", revision="v9")
    with pytest.raises(RemoteEntryNotFoundError):
        hf_hub_download("org/tiny", "absent.txt")


def test_server_error(hub: HubServer) -> None:
    with pytest.raises(HfHubHTTPError) as caught:
        HfApi().model_info("org/ill")
    assert caught.value.response.status_code == 500


def test_nothing_listens_at_the_dead_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redirect(monkeypatch, dead_endpoint(), tmp_path)
    with pytest.raises(httpx2.ConnectError):
        HfApi().model_info("org/tiny")


def test_a_fresh_interpreter_sees_the_server(hub: HubServer, tmp_path: Path) -> None:
    code = "from huggingface_hub import model_info; print(model_info('org/tiny').sha)"
    result = hub.run_python(code, tmp_path / "other")
    assert result.stdout.strip() == HfApi().model_info("org/tiny").sha, result.stderr
