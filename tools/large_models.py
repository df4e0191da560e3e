"""Run some architectures as models are run that do not fit, and print what works as a table.

Of each a tiny random checkpoint is extracted with all its blocks on the disk, and with its linear
layers in 8 and in 4 bits; the rows are compared with those of plain transformers in the same way,
one sentence at a time. This writes `docs/large_models.csv`, and the second table of
`docs/models.md` from it:

    python tools/large_models.py --write docs/models.md
"""

import argparse
import csv
import logging
import re
import statistics
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from architectures import (
    TOLERANCE,
    WRONG,
    extracted,
    outcome,
    put_between,
    row_differences,
    said,
    write_table,
)
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
    on_disk: str
    in_8_bits: str
    in_4_bits: str


_WAYS = {"on_disk": "blocks on the disk", "in_8_bits": "`8bit`", "in_4_bits": "`4bit`"}
"""What the page calls each way."""


def examine(family: str) -> Row:
    """Run a tiny model of a family in every way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / family
        with quiet_transformers():
            save_tiny(family, folder, _WIDER)
        part = part_to_name(str(folder))
        on_disk = tried(folder, part, {}, device_map=ON_DISK)
        eight, four = (
            tried(folder, part, _quantized(bits), quantize=bits) for bits in QUANTIZATIONS
        )
        return Row(family=family, on_disk=on_disk, in_8_bits=eight, in_4_bits=four)


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


def summary(rows: Sequence[Row]) -> str:
    """Return a Markdown table of what came of each way, over all families."""
    head = ["| | families | rows of the last layer move by |", "|---|---|---|"]
    ways = (_line(title, [getattr(row, way) for row in rows]) for way, title in _WAYS.items())
    return "\n".join([*head, *ways])


def _line(title: str, cells: Sequence[str]) -> str:
    outcomes = said(cell.partition("; ")[0] for cell in cells)
    moved = [float(found[1]) for cell in cells if (found := re.search(r"move by ([\d.]+)%", cell))]
    if not moved:
        return f"| {title} | {outcomes} | |"
    middle = statistics.median(moved)
    return f"| {title} | {outcomes} | {min(moved)} to {max(moved)} %, median {middle:.1f} % |"


def table_of(page: Path) -> list[Row]:
    """Return the rows of the table beside a page."""
    with page.with_name("large_models.csv").open(encoding="utf-8", newline="") as file:
        return [Row(**line) for line in csv.DictReader(file)]


def main() -> None:
    """Examine and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="all, if none is named")
    parser.add_argument("--write", type=Path, help="the page, beside which the table lies")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("probekit").setLevel(logging.ERROR)
    rows = [examine(family) for family in args.families or FAMILIES]
    print(*rows, summary(rows), sep="\n")
    if args.write is not None:
        write_table(rows, args.write.with_name("large_models.csv"))
        put_between(BEGIN, END, summary(rows), args.write)


if __name__ == "__main__":
    main()
