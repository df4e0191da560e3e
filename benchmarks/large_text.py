"""Claims 39 and 40: memory and speed of extraction from text beyond what memory holds.

A tiny random encoder with MiniLM's tokenizer reads 24 MB of JSON lines (at once), 50 MB and 2 GB
(in parts), each in a process of its own. Memory is the highest resident memory less that of the
process with the model loaded and run once (Linux); speed is of text, from its reading to the last
row. The model takes next to no time, so both are of reading, tokenising, planning and writing. 2 GB
take an hour.

    python benchmarks/large_text.py --models MODELS --data DATA
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from machine import resident
from measure import Claim, report
from subjects import MINILM, data_path, model_path, parser, work_folder

SIZES = (24, 50, 2_000)
"""Megabytes; the first is read at once."""

AIM, FLAT, RATE = 1.5e9, 1.25, 0.95
CLEAR = Path("/proc/self/clear_refs")
WORDS = 200
"""Of a text, on average."""


def main() -> None:
    """Measure and report, or be the process that extracts."""
    options = parser(__doc__)
    options.add_argument("--megabytes", type=int, nargs="+", default=SIZES)
    options.add_argument("--extract", type=Path, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.extract is not None:
        print(json.dumps(extract(args)))
        return
    peaks, speeds = {}, {}
    for size in args.megabytes:
        with work_folder(args) as work:
            folder = work / f"{size}-megabytes"
            folder.mkdir()
            write_model(model_path(args, MINILM), folder / "tiny")
            write_text(data_path(args, "wikitext2"), folder / "train.jsonl", size)
            peaks[size], seconds = measured(args, folder)
            speeds[size] = size / seconds
    first, *others = args.megabytes
    largest = max(peaks[size] for size in others)
    memory = Claim(
        number=39,
        title="peak memory of extraction from text in parts, beyond the loaded model",
        aim="<= 1.5 GB; flat",
        found=", ".join(f"{peak / 1e9:.2f} GB for {size:,} MB" for size, peak in peaks.items()),
        reached=largest <= AIM and largest <= FLAT * peaks[first],
        details=f"tiny model; text of {first} MB is read at once; called flat up to {FLAT} x that",
    )
    ratio = min(speeds[size] for size in others) / speeds[first]
    rate = Claim(
        number=40,
        title="speed of extraction from text in parts, over text that is read at once",
        aim=f">= {RATE}",
        found=f"{ratio:.2f}",
        reached=ratio >= RATE,
        details=", ".join(f"{size:,} MB at {speed:.2f} MB/s" for size, speed in speeds.items()),
    )
    report([memory, rate], args)


def write_model(like: str, folder: Path) -> None:
    """Write an encoder of one narrow block, with the tokenizer of another one."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    tokenizer = AutoTokenizer.from_pretrained(like)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_text(source: Path, file: Path, megabytes: int) -> None:
    """Write runs of a corpus's words, with one of two labels, as JSON lines."""
    words = [word for path in sorted(source.rglob("*.tokens")) for word in path.read_text().split()]
    draw = np.random.default_rng(0)
    with file.open("w") as out:
        while out.tell() < megabytes * 10**6:
            start, count = draw.integers(len(words) - 2 * WORDS), draw.integers(2 * WORDS)
            text = " ".join(words[start : start + count + 1])
            out.write(json.dumps({"text": text, "label": "ab"[count % 2]}) + "\n")


def measured(args: argparse.Namespace, folder: Path) -> tuple[int, float]:
    """Return peak and seconds of a process that extracts what lies in a folder."""
    command = [sys.executable, __file__, "--extract", str(folder), "--work", str(folder)]
    command += ["--models", str(args.models), "--data", str(args.data), "--device", args.device]
    quiet = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}  # as the command line sets it
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    peak, seconds = json.loads(done.stdout.splitlines()[-1])
    return peak, seconds


def extract(args: argparse.Namespace) -> tuple[int, float]:
    """Extract a text; return the bytes beyond the loaded model, and the seconds."""
    from probekit.backbone import inspect_backbone, load_backbone
    from probekit.extraction import ExtractOptions, ExtractTarget, extract_splits, open_session
    from probekit.tasks import TextOptions

    folder: Path = args.extract
    target = ExtractTarget(
        model=str(folder / "tiny"),
        task=str(folder / "train.jsonl"),
        own=TextOptions(kind="sentence"),
        device=args.device,
        cache=folder / "cache",
    )
    options = ExtractOptions(keep=("mean",), layers="1")
    inspection = inspect_backbone(target.model)
    backbone = load_backbone(inspection, device=target.device, compute_dtype="auto")
    backbone.layers(torch.zeros(1, 8, dtype=torch.long), torch.tensor([8]))
    CLEAR.write_text("5")  # the peak starts again from what is resident now
    before, start = resident("VmRSS"), time.perf_counter()
    extract_splits(*open_session(target, options))
    return resident("VmHWM") - before, time.perf_counter() - start


if __name__ == "__main__":
    main()
