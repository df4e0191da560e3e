import json
from importlib.metadata import PackageNotFoundError

import pytest

from probekit.base import installation
from probekit.base.installation import install_extra, unmet_requirements
from tests.cli.console import refused


class Facts:
    """Metadata of an installed package, as importlib has them."""

    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.origin and json.dumps(self.origin)


CHECKOUT = {"url": "file:///home/me/my%20probes", "dir_info": {"editable": True}}
GIT = {"url": "https://example.org/probekit", "vcs_info": {"vcs": "git", "commit_id": "1"}}
WHEEL = {"url": "file:///tmp/probekit-0.1.0-py3-none-any.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("origins", "command"),
    [
        ([CHECKOUT], "`pip install -e '.[gguf]'` in /home/me/my probes."),
        ([None, CHECKOUT], "`pip install -e '.[gguf]'` in /home/me/my probes."),  # run from there
        ([GIT], f"`pip install 'probekit[gguf] @ git+{GIT['url']}'`."),
        ([WHEEL], f"`pip install 'probekit[gguf] @ {WHEEL['url']}'`."),
        ([None], "`pip install 'probekit[gguf]'`."),
        ([], "`pip install 'probekit[gguf]'`."),
    ],
    ids=["checkout", "in the checkout", "git", "wheel", "index", "nowhere"],
)
def test_an_extra_is_added_to_what_is_installed(monkeypatch, origins, command):
    monkeypatch.setattr(installation, "distributions", lambda name: map(Facts, origins))
    assert install_extra("gguf") == f"Run {command}"


@pytest.fixture
def asked(monkeypatch):
    """Let probekit ask for packages that are of other versions, or not there."""
    installed = {"transformers": "5.2.0", "peft": "0.17.0", "torch": "2.13.0+cpu", "numpy": "2.4.6"}

    def version(name):
        if name in installed:
            return installed[name]
        raise PackageNotFoundError(name)

    needed = ["torch<3,>=2.8", "transformers<6,>=5.8", "numpy<3,>=2.0", "zarr<4,>=3.1"]
    extra = ['peft<1,>=0.18; extra == "adapters"', 'gguf<1,>=0.18; extra == "gguf"']
    extra += ['numpy>=9; extra == "dev"']
    monkeypatch.setattr(installation, "requires", lambda name: [*needed, *extra])
    monkeypatch.setattr(installation, "version", version)


def test_what_is_missing_or_too_old(asked):
    assert unmet_requirements() == {
        "transformers<6,>=5.8": "5.2.0",
        "zarr<4,>=3.1": None,
        "peft<1,>=0.18": "0.17.0",
    }


def test_this_environment_has_what_is_asked_for():
    assert unmet_requirements() == {}


def test_an_import_that_fails_names_the_package_that_is_too_old(asked, monkeypatch):
    def broken(*args, **kwargs):
        raise ImportError("cannot import name 'Fast' from 'transformers'")

    monkeypatch.setattr("probekit.extraction.maintenance.select_folders", broken)
    told = refused("cache", "info", "any")
    assert "cannot import name 'Fast' from 'transformers'. Packages that probekit needs" in told
    assert "transformers<6,>=5.8 (found: 5.2.0), zarr<4,>=3.1 (found: none)" in told
    assert "Run `pip install 'transformers<6,>=5.8' 'zarr<4,>=3.1' 'peft<1,>=0.18'`." in told
    assert "fault of probekit" not in told
