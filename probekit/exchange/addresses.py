"""URLs as places."""

import re
from pathlib import Path

from probekit.errors import OptionError
from probekit.exchange.hub_place import Hub
from probekit.exchange.url_places import BUCKETS, Bucket, Folder, Place
from probekit.store.files import typed_path

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.IGNORECASE)


def place_at(url: str | Path) -> Place:
    """Return the place that a user names; nothing is asked of it yet.

    Args:
        url: a folder, ``s3://BUCKET/PREFIX`` (``gs://``, ``az://``), or of the Hub
            ``hf://datasets/OWNER/NAME``, with ``@REVISION`` for a branch, tag or commit.

    Raises:
        OptionError: it is none of these, or a package for it is missing.
        HubError: it is no name of a repository.
    """
    found = _URL.fullmatch(str(url))
    if found is None:
        return Folder(typed_path(url))
    scheme, rest = found[1].lower(), found[2].strip("/")
    if scheme == "hf" and rest.startswith("datasets/"):
        repo, _, revision = rest.removeprefix("datasets/").partition("@")
        return Hub(repo, revision or None)
    if scheme in BUCKETS and rest:
        if "#" in rest or "?" in rest or {".", ".."} & {*rest.split("/")}:
            raise OptionError(f"{url}: a prefix may not contain # or ?, nor . or .. as a part.")
        return Bucket.at(f"{scheme}://{rest}")
    known = ", ".join(f"{name}://BUCKET/PREFIX" for name in BUCKETS)
    raise OptionError(f"{url}: expected a folder, {known} or hf://datasets/OWNER/NAME (@REVISION).")
