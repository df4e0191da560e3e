"""What the local Hub takes: new repositories, files by Git LFS, commits, branches.

The answers are those of the Hub's API as ``huggingface_hub`` reads them. A branch is a folder of
its own beside the repository's; a commit is the branch's only one.
"""

import base64
import hashlib
import json
import shutil
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hub_files import LFS_BYTES, LFS_SUFFIXES

ROUTES = ("preupload", "commit", "branch")


@dataclass
class HubUploads:
    """Where uploads go, and what was uploaded.

    Attributes:
        root: holds a folder per new repository; None takes no uploads.
        repos: key to folder, as the server serves them; new ones are added.
        private: the keys of private repositories.
        objects: LFS objects by their sha256, committed or not.
        received: bytes of LFS objects that came over HTTP, by their sha256, every time they came.
    """

    root: Path | None
    repos: MutableMapping[str, Path]
    private: set[str] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    received: list[tuple[str, int]] = field(default_factory=list)

    def create(self, server: str, form: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer ``/api/repos/create``."""
        key = f"{form['type']}s/{form['organization']}/{form['name']}"
        url = {"url": f"{server}/{key}"}
        if key in self.repos:
            return 409, {"error": "You already created this dataset repo", **url}
        assert self.root is not None
        self.repos[key] = self.root / key
        self.repos[key].mkdir(parents=True)
        (self.repos[key] / ".gitattributes").write_text("*.bin filter=lfs\n")
        if form.get("visibility") == "private":
            self.private.add(key)
        return 200, url

    def branch(self, key: str, name: str) -> tuple[int, dict[str, Any]]:
        """Answer ``/api/datasets/{repo}/branch/{name}``: a copy of main."""
        if f"{key}@{name}" in self.repos:
            return 409, {"error": "Reference already exists"}
        folder = self.repos[key].with_name(f"{self.repos[key].name}@{name}")
        self.repos[f"{key}@{name}"] = Path(shutil.copytree(self.repos[key], folder))
        return 200, {}

    def preupload(self, folder: Path, form: Mapping[str, Any]) -> dict[str, Any]:
        """Say of each file how it is to come, and what lies there now."""
        files = []
        for file in form["files"]:
            large = Path(file["path"]).suffix in LFS_SUFFIXES or file["size"] > LFS_BYTES
            here, oid = folder / file["path"], None
            if here.is_file():
                data = here.read_bytes()
                git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                oid = hashlib.sha256(data).hexdigest() if large else git
            mode = "lfs" if large else "regular"
            files.append(
                {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}
            )
        return {"files": files}

    def batch(self, url: str, form: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the LFS batch request: where to put what is not there yet."""
        objects = []
        for one in form["objects"]:
            found = {"oid": one["oid"], "size": one["size"]}
            if one["oid"] not in self.objects:
                found["actions"] = {"upload": {"href": f"{url}/lfs/{one['oid']}", "header": {}}}
            objects.append(found)
        return {"transfer": "basic", "objects": objects}

    def put(self, oid: str, data: bytes) -> int:
        """Take an LFS object."""
        self.received.append((oid, len(data)))
        if hashlib.sha256(data).hexdigest() != oid:
            return 400
        self.objects[oid] = data
        return 200

    def commit(self, folder: Path, body: bytes, head: str) -> tuple[int, dict[str, Any]]:
        """Change the files of a branch, all of them or none; ``head`` is its commit."""
        lines = [json.loads(line) for line in body.splitlines()]
        if lines[0]["value"].get("parentCommit", head) != head:
            return 412, {"error": "A commit has happened since. Please refresh and try again."}
        missing = [
            one["value"]["path"]
            for one in lines
            if one["key"] == "lfsFile" and one["value"]["oid"] not in self.objects
        ]
        if missing:
            return 400, {"error": f"LFS pointer pointed to a file that does not exist: {missing}"}
        for one in lines:
            value = one["value"]
            if one["key"] == "header":
                continue
            path = folder / value["path"]
            if one["key"] == "deletedFile":
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if one["key"] == "file":
                path.write_bytes(base64.b64decode(value["content"]))
            else:
                path.write_bytes(self.objects[value["oid"]])
        return 200, {}
