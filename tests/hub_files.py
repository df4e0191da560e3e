"""The files of a repository that the local Hub serves, as the Hub's API describes them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LFS_SUFFIXES = {".bin", ".gguf", ".h5", ".parquet", ".safetensors"}
LFS_BYTES = 10 * 2**20


@dataclass(frozen=True)
class HubFile:
    """One file of a repository, with the names that git and Git LFS give it."""

    path: str
    content: bytes

    @property
    def lfs(self) -> bool:
        return Path(self.path).suffix in LFS_SUFFIXES or len(self.content) > LFS_BYTES

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def blob_id(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.content) + self.content).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.blob_id

    def lfs_info(self) -> dict[str, Any]:
        return {"oid": self.sha256, "size": len(self.content), "pointerSize": 134}

    def tree_item(self) -> dict[str, Any]:
        item = {"type": "file", "path": self.path, "oid": self.blob_id, "size": len(self.content)}
        return item | ({"lfs": self.lfs_info()} if self.lfs else {})

    def sibling(self, blobs: bool) -> dict[str, Any]:
        if not blobs:
            return {"rfilename": self.path}
        item = {"rfilename": self.path, "size": len(self.content), "blobId": self.blob_id}
        lfs = {"sha256": self.sha256, "size": len(self.content), "pointerSize": 134}
        return item | ({"lfs": lfs} if self.lfs else {})


class HubRepo:
    """The files of one revision of a repository, as they lie in a folder now."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = [HubFile(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]
        self.files = {file.path: file for file in files}
        listing = "\n".join(f"{file.blob_id} {file.path}" for file in files)
        self.commit = hashlib.sha1(listing.encode()).hexdigest()

    def folders(self) -> list[str]:
        parents = {parent.as_posix() for path in self.files for parent in Path(path).parents}
        return sorted(parents - {"."})

    def items(self) -> list[dict[str, Any]]:
        """Every folder and file, as the tree listing describes them."""
        folders = [
            {"type": "directory", "path": path, "oid": self.commit, "size": 0}
            for path in self.folders()
        ]
        return folders + [file.tree_item() for file in self.files.values()]

    def tree(self, folder: str, recursive: bool) -> list[dict[str, Any]] | None:
        """The items below ``folder`` ("" for the top), None where there is no such folder."""
        if folder and folder not in self.folders():
            return None
        prefix = f"{folder}/" if folder else ""
        below = [item for item in self.items() if item["path"].startswith(prefix)]
        below = [item for item in below if item["path"] != folder]
        return [item for item in below if recursive or "/" not in item["path"][len(prefix) :]]
