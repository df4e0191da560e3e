"""A small local HTTP server that speaks the part of the Hugging Face Hub's API that clients use.

It serves folders as repositories, so that ``transformers``, ``datasets`` and ``huggingface_hub``
run their real network code without a network::

    with HubServer({"models/org/tiny": folder, "datasets/org/toy": other}) as hub:
        result = hub.run_python("from transformers import AutoModel; ...", tmp_path)

`tests.hub_clients` points clients at it, in a fresh interpreter or in this one.

What can go wrong is chosen per repository or file::

    HubServer(repos, faults={"models/org/locked": "gated-401", "models/org/ill": "error-500"},
              drops={"models/org/tiny/model.safetensors": 2})

* ``gated-401`` / ``gated-403``: files are refused, as for a gated repository without or with a
  token; the description stays readable, as on the real Hub.
* ``error-500``: every answer about the repository is a 500.
* ``drops``: so many GETs of that file end in the middle of the body.
* A repository that is not served answers 404 ``RepoNotFound``; a revision other than "main", the
  commit, or one served as ``"datasets/org/name@refs/convert/parquet"``, 404 ``RevisionNotFound``.

``HubServer({}, uploads=folder)`` takes new repositories, files and commits as well
(`tests.hub_uploads`); ``read-only`` is the fault of a token that may not write.

``hub.requests`` lists what was asked ("GET /api/models/org/tiny"), ``hub.sent`` counts the bytes of
files that were downloaded.
"""

import json
import re
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.hub_clients import client_environment, redirect, run_python
from tests.hub_files import HubFile, HubRepo
from tests.hub_uploads import ROUTES, HubUploads


class HubServer:
    """Serve folders as Hub repositories on 127.0.0.1 while the ``with`` block runs.

    Args:
        repos: "models/org/name" or "datasets/org/name" (with "@revision" for one that is not
            main) to the folder that holds its files. A folder is read again when it changed.
        faults: repository to "gated-401", "gated-403", "error-500" or "read-only".
        drops: "models/org/name/file" to the number of downloads to cut in the middle.
        uploads: the folder that holds what clients make; None takes no new repository.

    Attributes:
        uploads: what clients made and uploaded.
        sent: bytes of files that were downloaded, by "models/org/name/file".
    """

    def __init__(
        self,
        repos: Mapping[str, Path],
        faults: Mapping[str, str] | None = None,
        drops: Mapping[str, int] | None = None,
        uploads: Path | None = None,
    ) -> None:
        self.repos = dict(repos)
        self.uploads = HubUploads(uploads, self.repos)
        self.sent: Counter[str] = Counter()
        self.faults = dict(faults or {})
        self.drops = dict(drops or {})
        self.requests: list[str] = []
        self._loaded: dict[str, tuple[Any, HubRepo]] = {}
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def load(self, key: str) -> HubRepo:
        """The repository under ``key``, read again if a file of it changed."""
        folder = self.repos[key]
        stats = [(str(path), path.stat()) for path in sorted(folder.rglob("*"))]
        stamp = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
        with self._lock:
            if key not in self._loaded or self._loaded[key][0] != stamp:
                self._loaded[key] = (stamp, HubRepo(folder))
            return self._loaded[key][1]

    def revision(self, key: str, revision: str) -> HubRepo | None:
        """One revision of a repository: main, a name served with "@", or a commit of either."""
        named = f"{key}@{revision}"
        if named in self.repos:
            return self.load(named)
        served = [name for name in self.repos if name == key or name.startswith(f"{key}@")]
        by_commit = {self.load(name).commit: name for name in served}
        if revision == "main" and key in self.repos:
            return self.load(key)
        return self.load(by_commit[revision]) if revision in by_commit else None

    def drop_now(self, file: str) -> bool:
        """Whether this download of ``file`` is one to cut."""
        with self._lock:
            left = self.drops.get(file, 0)
            self.drops[file] = max(left - 1, 0)
            return left > 0

    def environment(self, home: Path) -> dict[str, str]:
        """The variables that point a fresh interpreter at this server, with an empty Hub home."""
        return client_environment(self.url, home)

    def run_python(
        self, code: str, home: Path, *arguments: str, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run ``code`` in a fresh interpreter that sees this server as the Hub."""
        return run_python(self.url, code, home, *arguments, timeout=timeout)

    def redirect(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        """Point the clients of this process at the server until the test ends."""
        redirect(monkeypatch, self.url, home)


@dataclass(frozen=True)
class _Answer:
    """What goes back to the client."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    drop: bool = False
    file: str = ""


def _json(value: Any) -> _Answer:
    return _Answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _refusal(status: int, code: str, message: str, **headers: str) -> _Answer:
    body = json.dumps({"error": message}).encode()
    return _Answer(status, body, {"X-Error-Code": code, "X-Error-Message": message} | headers)


class _Handler(BaseHTTPRequestHandler):
    """Answers one client; ``hub`` is set on the subclass that ``HubServer`` makes."""

    hub: HubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body after its headers would wait 40 ms

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: ``HubServer.requests`` is the log."""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.form = self._body()
        self.hub.requests.append(f"{self.command} {unquote(self.path)}")
        self._send(self._route())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _send(self, answer: _Answer) -> None:
        self.send_response(answer.status)
        for name, value in (answer.headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        body = answer.body[: len(answer.body) // 2] if answer.drop else answer.body
        if answer.file:
            self.hub.sent[answer.file] += len(body)
        if answer.drop:
            self.wfile.write(body)
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(body)

    def _route(self) -> _Answer:
        """Find the repository that the path speaks of, then answer for it."""
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        api = parts[0] == "api"
        if parts == ["api", "repos", "create"]:
            return self._made(*self.hub.uploads.create(self.hub.url, json.loads(self.form)))
        if parts == ["api", "validate-yaml"]:
            return _json({"errors": [], "warnings": []})
        if self.command == "PUT":
            return _Answer(self.hub.uploads.put(parts[1], self.form), headers={"ETag": '"e"'})
        if api:
            parts = parts[1:]
        kind = "models"
        if parts and parts[0] in ("models", "datasets", "spaces"):
            kind, parts = parts[0], parts[1:]
        if len(parts) < 2:
            return _refusal(404, "NotFound", "no such page")
        key, rest = f"{kind}/{parts[0]}/{parts[1].removesuffix('.git')}", parts[2:]
        if not any(name == key or name.startswith(f"{key}@") for name in self.hub.repos):
            return _refusal(404, "RepoNotFound", "Repository not found")
        if self.hub.faults.get(key) == "error-500":
            return _refusal(500, "InternalError", "Internal Error")
        if self.command == "POST" and (rest[:1] == ["info"] or (api and rest[0] in ROUTES)):
            return self._upload(key, rest)
        return self._describe(key, rest) if api else self._resolve(key, rest)

    def _made(self, status: int, value: Mapping[str, Any]) -> _Answer:
        if status == 200:
            return _json(value)
        body = json.dumps(value).encode()
        return _Answer(status, body, {"X-Error-Message": str(value["error"])})

    def _upload(self, key: str, rest: list[str]) -> _Answer:
        """Answer what sends files: ``preupload``, ``info/lfs/objects/batch``, ``commit``."""
        uploads, action = self.hub.uploads, rest[0]
        if self.hub.faults.get(key) == "read-only":
            return _refusal(403, "Forbidden", "You have read access but not the required write")
        if action == "branch":
            return self._made(*uploads.branch(key, rest[1]))
        if action == "info":
            return _json(uploads.batch(self.hub.url, json.loads(self.form)))
        folder = self.hub.repos.get(key if rest[1] == "main" else f"{key}@{rest[1]}")
        if folder is None:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {rest[1]}")
        if action == "preupload":
            return _json(uploads.preupload(folder, json.loads(self.form)))
        status, told = uploads.commit(folder, self.form, HubRepo(folder).commit)
        commit = HubRepo(folder).commit
        made = {"commitUrl": f"{self.hub.url}/{key}/commit/{commit}", "commitOid": commit}
        return self._made(status, made | told)

    def _describe(self, key: str, rest: list[str]) -> _Answer:
        """Answer ``/api/{kind}/{repo}/...``: information, tree, paths-info, refs."""
        action = rest[0] if rest else "revision"
        revision = rest[1] if len(rest) > 1 else "main"
        if action == "refs":
            return _json({"branches": [], "converts": [], "tags": [], "pullRequests": []})
        repo = self.hub.revision(key, revision)
        if repo is None:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if action == "revision":
            return self._information(key, repo)
        if action == "tree":
            return self._tree(repo, "/".join(rest[2:]))
        if action == "paths-info":
            return self._paths(repo)
        return _refusal(404, "NotFound", f"no such action: {action}")

    def _information(self, key: str, repo: HubRepo) -> _Answer:
        blobs = "blobs" in parse_qs(urlsplit(self.path).query)
        gated = "manual" if self.hub.faults.get(key, "").startswith("gated") else False
        name = key.split("/", 1)[1]
        siblings = [file.sibling(blobs) for file in repo.files.values()]
        private = key in self.hub.uploads.private
        facts = {"sha": repo.commit, "private": private, "gated": gated, "disabled": False}
        counts = {"downloads": 0, "likes": 0, "tags": []}
        return _json(
            {"id": name, "author": name.split("/")[0], "siblings": siblings} | facts | counts
        )

    def _tree(self, repo: HubRepo, folder: str) -> _Answer:
        recursive = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0]
        items = repo.tree(folder, recursive.lower() in ("true", "1"))
        if items is None:
            return _refusal(404, "EntryNotFound", f"{folder} does not exist")
        return _json(items)

    def _paths(self, repo: HubRepo) -> _Answer:
        text = self.form.decode()
        if "json" in self.headers.get("Content-Type", ""):
            wanted = json.loads(text)["paths"]
        else:
            wanted = parse_qs(text).get("paths", [])
        return _json([item for item in repo.items() if item["path"] in set(wanted)])

    def _resolve(self, key: str, rest: list[str]) -> _Answer:
        """Answer ``/{repo}/resolve/{revision}/{file}``, whole or a range of it."""
        fault = self.hub.faults.get(key, "")
        if fault.startswith("gated"):
            return _refusal(int(fault.rpartition("-")[2]), "GatedRepo", "Access is restricted")
        if len(rest) < 3 or rest[0] != "resolve":
            return _refusal(404, "NotFound", "no such page")
        revision, path = rest[1], "/".join(rest[2:])
        repo = self.hub.revision(key, revision)
        if repo is None:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit = {"X-Repo-Commit": repo.commit}
        if path not in repo.files:
            return _refusal(404, "EntryNotFound", "Entry not found", **commit)
        return self._file(f"{key}/{path}", repo.files[path], commit)

    def _file(self, name: str, file: HubFile, commit: Mapping[str, str]) -> _Answer:
        headers = {"ETag": f'"{file.etag}"', "Accept-Ranges": "bytes", **commit}
        if file.lfs:
            size = str(len(file.content))
            headers |= {"X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": size}
        drop = self.command == "GET" and self.hub.drop_now(name)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked:
            return _Answer(200, file.content, headers, drop, name)
        total = len(file.content)
        first, last = int(asked[1]), min(int(asked[2] or total), total - 1)
        if first >= total:
            return _Answer(416, b"", headers | {"Content-Range": f"bytes */{total}"})
        headers["Content-Range"] = f"bytes {first}-{last}/{total}"
        return _Answer(206, file.content[first : last + 1], headers, drop, name)
