"""Run the code of a page in the current folder, block by block: python run_page.py PAGE.

Python blocks share one namespace, as in a session, and their source can be looked up, as that of a
notebook's cells can; each shell block is a bash of its own that ends at the first error.
"""

import linecache
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import cloudpickle

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.documents.code_blocks import blocks

SETTINGS = {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}


def run(page: Path) -> None:
    """Run a page; an error ends it, and says which block it is of."""
    session = ModuleType(f"page_{page.stem.replace('-', '_')}")
    session.__file__ = str(Path(f"{session.__name__}.py").resolve())
    sys.modules[session.__name__] = session
    cloudpickle.register_pickle_by_value(session)  # workers cannot import it
    source = ""
    for block in blocks(page.read_text("utf-8")):
        if not block.runs:
            continue
        start = time.perf_counter()
        print(f"{page.name}:{block.line} {block.language}", flush=True)
        if block.language == "python":
            placed = "\n" * (block.line - 1) + block.text  # tracebacks name lines of the page
            source += placed[source.count("\n") :] + "\n"
            Path(session.__file__).write_text(source, "utf-8")
            linecache.checkcache(session.__file__)
            exec(compile(placed, str(page), "exec"), vars(session))
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], check=True)
        print(f"-- {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    os.environ |= SETTINGS
    run(Path(sys.argv[1]))
