"""An S3 server of this machine over real HTTP (moto's); it can fail, and counts what it sends."""

import random
import socket
import threading
import time
import urllib.request
from collections import Counter
from itertools import count

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

_names = count()
REFUSED = (
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'
)


class Faults:
    """Some share of requests is answered 500, some are dropped, some are slow.

    Every second request that fails does so after it has done its work.
    """

    def __init__(self, seed, *, failed=0.05, dropped=0.01, slow=0.05, seconds=0.05):
        self._random, self._lock = random.Random(seed), threading.Lock()
        self._failed, self._dropped, self._slow, self._seconds = failed, dropped, slow, seconds
        self.met = Counter()

    def draw(self):
        """Return what happens to a request, and whether it does its work before."""
        with self._lock:
            place, late = self._random.random(), self._random.random() < 0.5
            for what, share in (
                ("500", self._failed),
                ("drop", self._dropped),
                ("slow", self._slow),
            ):
                if place < share:
                    self.met[what] += 1
                    return what, late
                place -= share
        return "", False


class S3Server:
    """Answers until it is closed; every bucket is new."""

    def __init__(self):
        self.faults = None
        self.refuses = False
        self.sent = Counter()
        self.asked = Counter()
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_Quiet)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def bucket(self):
        """Make one, and return its name."""
        name = f"bucket{next(_names)}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT")):
            return name

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def __call__(self, environ, start_response):
        self.asked[environ["REQUEST_METHOD"]] += 1
        if self.refuses:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [REFUSED]
        what, late = ("", False) if self.faults is None else self.faults.draw()
        if what == "slow":
            time.sleep(self.faults._seconds)
        if what in ("500", "drop"):
            if late:
                b"".join(self._app(environ, lambda *given: None))
            else:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            if what == "drop":
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                raise ConnectionResetError
            start_response("500 Internal Server Error", [("Content-Length", "0")])
            return []
        answer = b"".join(self._app(environ, start_response))
        self.sent[environ["PATH_INFO"]] += len(answer) * (environ["REQUEST_METHOD"] == "GET")
        return [answer]


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *given):
        pass

    def make_environ(self):
        return super().make_environ() | {"werkzeug.socket": self.connection}
