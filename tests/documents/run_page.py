"""Run the code of a page in the current folder, block by block: python run_page.py PAGE.

Python blocks share one namespace, as in a session; each shell block is a bash of its own that ends
at the first error.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.documents.code_blocks import Block, blocks


def run(page: Path) -> None:
    """Run a page; an error ends it, and says which block it is of."""
    space: dict[str, object] = {"__name__": f"page_{page.stem.replace('-', '_')}"}
    for block in blocks(page.read_text("utf-8")):
        if not block.runs:
            continue
        start = time.perf_counter()
        print(f"{page.name}:{block.line} {block.language}", flush=True)
        if block.language == "python":
            exec(compile(_placed(block), str(page), "exec"), space)
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], check=True)
        print(f"-- {time.perf_counter() - start:.1f} s", flush=True)


def _placed(block: Block) -> str:
    """Return a block's text so that tracebacks name lines of the page."""
    return "\n" * (block.line - 1) + block.text


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    run(Path(sys.argv[1]))
