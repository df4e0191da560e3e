"""Models from the Hub, over real HTTP to a local server, and every way that fails."""

import shutil
import time
from dataclasses import asdict

import huggingface_hub.constants
import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import BackboneError, HubError
from tests import hub_files
from tests.backbone.running import states_of
from tests.hub_clients import dead_endpoint, redirect
from tests.hub_server import HubServer

NAME = "models/org/tiny"


@pytest.fixture
def served(tiny_folder, tmp_path, monkeypatch):
    """Return a function that serves a tiny model as org/tiny and points the clients at it."""
    servers = []

    def serve(**options):
        folder = shutil.copytree(tiny_folder("bert"), tmp_path / "served", dirs_exist_ok=True)
        server = HubServer({NAME: folder}, **options)
        server.__enter__()
        servers.append(server)
        server.redirect(monkeypatch, tmp_path / "home")
        return server

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


def test_the_hub_and_a_local_copy_are_the_same_model(served, tiny_folder):
    hub = served()
    inspection = inspect_backbone("org/tiny")
    assert not any("safetensors" in request for request in hub.requests), "inspected, not loaded"
    local = inspect_backbone(str(tiny_folder("bert")))
    own = {"name": "org/tiny", "source": "hub", "revision": inspection.info.revision}
    expected = asdict(local.info) | own
    assert asdict(inspection.info) == expected
    assert len(inspection.info.revision) == 40
    assert torch.equal(states_of(inspection), states_of(local))


def test_weights_whose_sha256_the_hub_does_not_list_are_hashed(served, tiny_folder, monkeypatch):
    monkeypatch.setattr(hub_files, "LFS_SUFFIXES", ())
    monkeypatch.setattr(hub_files, "LFS_BYTES", 1 << 30)
    hub = served()
    info = inspect_backbone("org/tiny").info
    assert any(request.endswith("model.safetensors") for request in hub.requests)
    assert info.identity.weights == inspect_backbone(str(tiny_folder("bert"))).info.identity.weights


@pytest.mark.parametrize(
    ("faults", "model", "revision", "message"),
    [
        ({}, "org/tiny", "v9", "has no branch, tag or commit 'v9'"),
        ({}, "org/other", None, "'org/other' does not exist"),
        ({NAME: "gated-401"}, "org/tiny", None, "'org/tiny' is gated"),
        ({NAME: "gated-403"}, "org/tiny", None, "'org/tiny' is gated"),
        ({NAME: "error-500"}, "org/tiny", None, "HTTP 500"),
    ],
)
def test_what_the_hub_refuses_is_said_within_seconds(faults, model, revision, message, served):
    served(faults=faults)
    start = time.monotonic()
    with pytest.raises(HubError, match=message) as caught:
        inspect_backbone(model, revision=revision)
    assert time.monotonic() - start < 10
    assert "\n" not in str(caught.value)


def test_an_unreachable_hub_says_what_works_without_it(monkeypatch, tmp_path):
    redirect(monkeypatch, dead_endpoint(), tmp_path)
    start = time.monotonic()
    with pytest.raises(HubError, match="cannot be reached") as caught:
        inspect_backbone("org/tiny")
    assert time.monotonic() - start < 5
    for option in ("local model folder", ".gguf file", "HF_HUB_OFFLINE"):
        assert option in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_was_fetched_before_serves_without_the_hub(served, monkeypatch, tmp_path, caplog):
    served()
    first = inspect_backbone("org/tiny")
    load_backbone(first, compute_dtype="float32")
    redirect(monkeypatch, dead_endpoint(), tmp_path / "home")
    again = inspect_backbone("org/tiny")
    assert again.info == first.info
    assert "using the cached copy of org/tiny" in caplog.text
    load_backbone(again, compute_dtype="float32")


def test_offline_asks_nobody(served, monkeypatch):
    hub = served()
    first = inspect_backbone("org/tiny")
    load_backbone(first, compute_dtype="float32")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.requests)
    again = inspect_backbone("org/tiny")
    load_backbone(again, compute_dtype="float32")
    assert again.info == first.info
    assert len(hub.requests) == asked
    with pytest.raises(HubError, match=r"offline \(HF_HUB_OFFLINE\), and 'org/none' is not in"):
        inspect_backbone("org/none")


def test_offline_with_weights_never_fetched(served, monkeypatch):
    served()
    inspect_backbone("org/tiny")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="incomplete: some weights are missing"):
        inspect_backbone("org/tiny")


def test_a_download_that_keeps_breaking(served, monkeypatch):
    served(drops={NAME + "/model.safetensors": 1000})
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(HubError) as caught:
        load_backbone(inspect_backbone("org/tiny"), compute_dtype="float32")
    assert "\n" not in str(caught.value)


def test_a_repository_without_a_configuration(served, tmp_path):
    served()
    (tmp_path / "served" / "config.json").unlink()
    with pytest.raises(BackboneError, match=r"has no config\.json"):
        inspect_backbone("org/tiny")
