"""An S3 server that others wrote (SeaweedFS), and a proxy before it that answers 503 at times.

The server keeps what it holds on the disk, so that it can be killed and started again.
"""

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("weed")
BUCKET, KEY, SECRET = "bucket", "somebody", "secret"
BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Slow down</Message></Error>'

Answer = tuple[int, list[tuple[str, str]], bytes]


class RealS3Server:
    """SeaweedFS with a folder of its own, on 127.0.0.1 alone."""

    def __init__(self, folder: Path) -> None:
        """Start it, with an empty folder."""
        self._folder, self._names = folder, count()
        names = ("master", "volume", "filer", "s3")
        with ExitStack() as held:
            ports = {
                f"{name}.port{grpc}": held.enter_context(socket.create_server(("127.0.0.1", 0)))
                for name in names
                for grpc in ("", ".grpc")
            }
            self._ports = {name: port.getsockname()[1] for name, port in ports.items()}
        self.port = self._ports["s3.port"]
        credentials = [{"accessKey": KEY, "secretKey": SECRET}]
        identity = {"name": KEY, "credentials": credentials, "actions": ["Admin"]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir()
        self.start()
        self._make_bucket()

    def start(self) -> None:
        """Start it, and wait until it answers and has room to write to."""
        options = {
            "dir": "data", "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "master.telemetry": "false",
            "s3.config": "s3.json", "s3.port.iceberg": 0, "s3.port.lance": 0, "volume.max": 40,
            "master.volumeSizeLimitMB": 64, "filer.localSocket": "filer", "s3.localSocket": "s3",
            "volume.preStopSeconds": 0, **self._ports,
        }  # fmt: skip
        words = [f"-{name}={value}" for name, value in options.items()]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [PROGRAM, "-logtostderr", "server", "-s3", *words],
                cwd=self._folder, stdout=log, stderr=log,
            )  # fmt: skip
        end = time.monotonic() + 90
        while not (_answers(self.port) and _answers(self._ports["master.port"], "dir/assign")):
            running = self._process.poll() is None
            assert running and time.monotonic() < end, (self._folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    def start_again(self) -> None:
        """Start it, unless it runs."""
        if self._process.poll() is not None:
            self.start()

    def kill(self) -> None:
        """Kill it, with whatever it was at."""
        self._process.kill()
        self._process.wait()

    def place(self) -> str:
        """Return the URL of a place where nothing lies yet."""
        return f"s3://{BUCKET}/{next(self._names)}"

    def _make_bucket(self) -> None:
        import boto3
        from botocore.config import Config

        client = boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{self.port}", aws_access_key_id=KEY,
            aws_secret_access_key=SECRET, region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )  # fmt: skip
        client.create_bucket(Bucket=BUCKET)
        client.close()


def _answers(port: int, path: str = "status") -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 404
    except OSError:
        return False


class Proxy:
    """Passes requests on to a server, and answers in its place where that is asked for.

    Attributes:
        url: what clients connect to.
        busy: the share of requests that are answered 503.
        refused: how many were.
        passed: method, path with query, and bytes of every request that was passed on.
        before: called with the method before each of these is passed on.
    """

    def __init__(self, port: int) -> None:
        """Answer until it is closed."""
        self.busy, self.refused = 0.0, 0
        self.passed: list[tuple[str, str, int]] = []
        self.before: Callable[[str], object] = lambda method: None
        self._random, self._port = random.Random(1), port
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler, data: bytes) -> Answer:
        """Return status, headers and body of the answer to a request."""
        if self._random.random() < self.busy:
            self.refused += 1
            return 503, [("Content-Length", str(len(BUSY)))], BUSY
        self.before(request.command)
        self.passed.append((request.command, request.path, len(data)))
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        with closing(connection):
            options = {"skip_host": True, "skip_accept_encoding": True}
            connection.putrequest(request.command, request.path, **options)
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(data)
            with connection.getresponse() as response:
                body, headers = response.read(), response.getheaders()
                if response.chunked:
                    headers = [pair for pair in headers if pair[0].lower() != "transfer-encoding"]
                    headers.append(("Content-Length", str(len(body))))
                return response.status, headers, body

    def written(self) -> list[str]:
        """Return the paths that were written to, in order: with the number of the part, if any."""
        return [path for method, path, _ in self.passed if method == "PUT"]

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _pass_on(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, headers, body = self.proxy.answer(self, data)
        except (OSError, http.client.HTTPException):  # the server is gone: so is the connection
            self.close_connection = True
            return
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def log_message(self, *given: object) -> None:
        """Say nothing."""
