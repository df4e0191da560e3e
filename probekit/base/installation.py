"""How probekit is installed: what it asks of other packages, and how an extra of it is added."""

import json
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import url2pathname

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_FOR_DEVELOPERS = ("browser", "bucket", "dev", "docs", "range")
"""Extras that no user needs."""


def install_extra(extra: str) -> str:
    """Return how to install the packages of an extra from where probekit came, for messages."""
    # a checkout in the path holds a second set of facts, without a source
    sources = (facts.read_text("direct_url.json") for facts in distributions(name="probekit"))
    origin = json.loads(next(filter(None, sources), "{}"))
    url = origin.get("url", "")
    if origin.get("dir_info", {}).get("editable"):
        folder = url2pathname(urlparse(url).path)
        return f"Run `pip install -e '.[{extra}]'` in {folder}."
    if vcs := origin.get("vcs_info", {}).get("vcs"):
        url = f"{vcs}+{url}"
    return f"Run `pip install 'probekit[{extra}]{f' @ {url}' if url else ''}'`."


def unmet_requirements() -> dict[str, str | None]:
    """Return what probekit asks for and this environment does not have.

    Returns:
        by requirement, such as ``transformers>=5.8,<6``, the version that is installed; None where
        none is. A package that only an extra asks for counts where it is installed.
    """
    from packaging.requirements import Requirement

    try:
        asked = [*map(Requirement, requires("probekit") or ())]
    except PackageNotFoundError:
        return {}
    unmet: dict[str, str | None] = {}
    for requirement in asked:
        always = _needs(requirement, "")
        if not always and any(_needs(requirement, extra) for extra in _FOR_DEVELOPERS):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            installed = None
        if installed is None:
            fits = not always
        else:
            fits = requirement.specifier.contains(installed, prereleases=True)
        if not fits:
            unmet[f"{requirement.name}{requirement.specifier}"] = installed
    return unmet


def _needs(requirement: "Requirement", extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
