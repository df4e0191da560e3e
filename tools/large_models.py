"""Run some architectures as models are run that do not fit, and print what works as a table.

Of each a tiny random checkpoint is extracted with all its blocks on the disk, and with its linear
layers in 8 and in 4 bits; the rows are compared with those of plain transformers in the same way,
one sentence at a time. The second table of `docs/models.md` is what this prints:

    python tools/large_models.py --write docs/models.md
"""

import argparse
import logging
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from architectures import TOLERANCE, WRONG, extracted, outcome, put_between, row_differences
from tiny_models import save_tiny

from probekit.backbone import part_to_name
from probekit.backbone.forward import no_warnings, quiet_transformers
from probekit.backbone.placement import QUANTIZATIONS, quantization
from probekit.errors import ProbekitError

BEGIN, END = "<!-- large models: begin -->", "<!-- large models: end -->"

FAMILIES = (
    *("bart", "bert", "deberta-v2", "electra", "gemma3_text", "gpt2", "gpt_neox", "llama"),
    *("mistral", "modernbert", "mpnet", "olmo2", "phi3", "qwen3", "roberta", "t5"),
)

_WIDER = 4
"""Times the width of other tiny models: four bits come in blocks of 64."""

ON_DISK = {"": "disk"}

_ROUNDED = 2e-2
"""The tolerance of few bits: products round what comes in to whole numbers, or on some CPUs to
bfloat16, so that the last bit of float32, which batches move, may become one of those."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a family, and the outcome of each way."""

    family: str
    spread: str
    eight: str
    four: str

    def to_line(self) -> str:
        """Return the row of the Markdown table."""
        return "| " + " | ".join(astuple(self)) + " |"


def examine(family: str) -> Row:
    """Run a tiny model of a family in every way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / family
        with quiet_transformers():
            save_tiny(family, folder, _WIDER)
        part = part_to_name(str(folder))
        spread = tried(folder, part, {}, device_map=ON_DISK)
        eight, four = (
            tried(folder, part, _quantized(bits), quantize=bits) for bits in QUANTIZATIONS
        )
        return Row(family=family, spread=spread, eight=eight, four=four)


def _quantized(bits: str) -> Mapping[str, Any]:
    return {**quantization(bits, torch.float32), "device_map": {"": "cpu"}}


def tried(folder: Path, part: str | None, options: Mapping[str, Any], **how: Any) -> str:
    """Return what came of one way, and of few bits how far the last layer moves."""
    try:
        entry = extracted(folder, part, **how)
    except ProbekitError as error:
        return str(error).replace(str(folder), folder.name)
    with no_warnings():
        same = float(row_differences(entry, folder, **options).max())
        moved = float(row_differences(entry, folder)[-1])
    if same > (_ROUNDED if options else TOLERANCE):
        return f"{WRONG}: rows are off by {same:.1e}"
    found = outcome(entry.manifest.extra["batching"])
    return f"{found}; rows move by {moved:.1%}" if options else found


def table(rows: Sequence[Row]) -> str:
    """Return the Markdown table."""
    head = ["| family | blocks on the disk | `8bit` | `4bit` |", "|---|---|---|---|"]
    return "\n".join([*head, *(row.to_line() for row in rows)])


def main() -> None:
    """Examine and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="all, if none is named")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("probekit").setLevel(logging.ERROR)
    text = table([examine(family) for family in args.families or FAMILIES])
    print(text)
    if args.write is not None:
        put_between(BEGIN, END, text, args.write)


if __name__ == "__main__":
    main()
