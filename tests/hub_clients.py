"""The Hub's clients, pointed at another address.

``HF_ENDPOINT`` is read once, when ``huggingface_hub`` is imported, so a test points the clients at
the server in one of two ways:

* ``run_python(url, code, home)`` runs code in a fresh interpreter with
  ``client_environment(url, home)``: nothing of the test process matters. Two to six seconds, most
  of it imports.
* ``redirect(monkeypatch, url, home)`` replaces the constants that ``huggingface_hub`` and
  ``datasets`` copied from the environment, inside this process, until the test ends. Fast. Clients
  that were built before (``huggingface_hub.model_info`` is bound to one) keep the old address, so
  the code under test builds its own ``HfApi()`` or calls ``from_pretrained`` / ``load_dataset``.

Both give the clients an empty home (``home``), so nothing cached on the machine helps or hurts.

``dead_endpoint()`` is an address at which nothing listens.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def dead_endpoint() -> str:
    """An address on this machine at which nothing listens: connections are refused at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def client_environment(url: str, home: Path) -> dict[str, str]:
    """The environment of an interpreter whose Hub is at ``url`` and whose Hub home is ``home``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    proxies = {"http_proxy", "https_proxy", "all_proxy"}
    kept = {name: value for name, value in kept.items() if name.lower() not in proxies}
    return kept | {
        "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def run_python(
    url: str, code: str, home: Path, *arguments: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` with ``arguments`` in a fresh interpreter whose Hub is at ``url``."""
    root = Path(__file__).resolve().parents[1]
    environment = client_environment(url, home) | {"PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip


def redirect(monkeypatch: pytest.MonkeyPatch, url: str, home: Path) -> None:
    """Point the Hub clients of this process at ``url``, with ``home`` as their home."""
    import datasets.config
    import huggingface_hub.constants
    import huggingface_hub.utils
    from huggingface_hub import HfFileSystem

    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", url)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "datasets")
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(home / "modules"))
    monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "__init__", _with_endpoint(url))
    HfFileSystem.clear_instance_cache()


def _with_endpoint(url: str) -> Any:
    """``HfApi.__init__`` whose default endpoint is ``url``."""
    from huggingface_hub import HfApi

    original = HfApi.__init__

    def initialise(self: HfApi, endpoint: str | None = None, *args: Any, **kwargs: Any) -> None:
        original(self, endpoint or url, *args, **kwargs)

    return initialise
