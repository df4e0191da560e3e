"""A process that has imported what commands import, and forks for each command of a page.

A page has a dozen commands, each of which would spend most of its time on imports. What a command
finds is its own otherwise: arguments, folder, environment, input and output.
"""

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IMPORTED = (
    "probekit.extraction.extraction_call", "probekit.train.sweeps.run", "probekit.train.saved.head",
    "probekit.plots.weights", "probekit.page.report_page", "probekit.measures.measuring",
)  # fmt: skip

CLIENT = """#!{python} -ISs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    told = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [told], [0, 1, 2])
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(9) or 1))
"""


@contextmanager
def warm_commands(folder: Path) -> Iterator[Path]:
    """Give a folder that holds a command ``probekit``, which another process carries out."""
    path, command = folder / "socket", folder / "bin" / "probekit"
    command.parent.mkdir(parents=True)
    command.write_text(CLIENT.format(python=sys.executable, path=str(path)), "utf-8")
    command.chmod(0o755)
    with subprocess.Popen([sys.executable, __file__, path], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        try:
            yield command.parent
        finally:
            server.terminate()


def serve(path: str) -> None:
    """Carry out commands until the process is ended."""
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a child
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                code = carry_out(client)
                client.sendall(str(code).encode())
                os._exit(code)
            client.close()


def carry_out(client: socket.socket) -> int:
    """Run one command as a process of its own would, and return its exit code."""
    told, files, *_ = socket.recv_fds(client, 2**20, 3)
    while more := client.recv(2**20):
        told += more
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.argv, folder, environment = json.loads(told)
    os.chdir(folder)
    os.environ.clear()
    os.environ |= environment
    from probekit.cli import main

    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
