"""The library that makes system calls fail, built from shim.c where there is a compiler."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
ROOT = SOURCE.parents[2]
ALWAYS = -1
"""The number of no call: what is armed with it counts."""


def compiler() -> str | None:
    """Return the C compiler of this machine, if it has one."""
    return shutil.which("cc") or shutil.which("gcc")


def under_shim(words: list[str]) -> None:
    """Start this process again with the library in front of libc, unless it is there already."""
    if "probekit-shim" in os.environ.get("LD_PRELOAD", ""):
        return
    folder = Path(tempfile.mkdtemp(prefix="probekit-shim-"))
    library = folder / "shim.so"
    built = [compiler(), "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl", "-lpthread"]
    subprocess.run(list(map(str, built)), check=True)
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, **one, "LD_PRELOAD": str(library), "PYTHONPATH": path}
    os.execve(sys.executable, [sys.executable, "-W", "ignore", *words], env)


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.fault_seen.restype = ctypes.c_long
    library.fault_arm.argtypes = [
        *(ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p)
    ]
    return library


def arm(
    folder: Path, number: int, error: int = 0, *, lasting: bool = False, note: str = ""
) -> None:
    """Let call number ``number`` that writes below a folder kill this process, or fail.

    Args:
        folder: calls elsewhere do not count.
        number: 0 is the first one; `ALWAYS` strikes none.
        error: the error of the call; 0 kills.
        lasting: all later calls fail as well.
        note: a file that gets the inodes of what was written and not synced, when it kills.
    """
    _library().fault_arm(str(folder).encode(), number, error, int(lasting), note.encode())


def seen() -> int:
    """Return how many calls there were since it was armed."""
    return int(_library().fault_seen())
