"""Claims 27 and 28: `cache copy` against `cp -r`, `cache convert` against reading and writing.

A float32 entry of the words of CoNLL-2003's first 4,000 train sentences, minilm-l6, all layers.
`cache copy` compares every chunk with its checksum twice, as it is read and as it was written, and
waits until it is on the disk; `cp -r` does neither, so the same is measured with `sync -f` behind
it. `cache convert` to float16 is held against what it cannot do without: all rows read through
their maps, rounded, and written past the page cache in files of the same size.

    python benchmarks/cache_copying.py --models MODELS --data DATA
"""

import argparse
import shutil
import subprocess
from pathlib import Path

import torch
from measure import Claim, Timings, alternate, at_least, report, timed
from subjects import extract_conll, parser, work_folder

from probekit import ExtractOptions
from probekit.base.notices import human_bytes
from probekit.extraction.maintenance import EntryCopy, plan_conversion
from probekit.store.entry import Entry
from probekit.store.files import WholeFiles

COPY, CONVERT = 27, 28
SENTENCES = 4_000
COPY_AIM, CONVERT_AIM = 0.5, 0.5


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder:
        (entry,) = extract_conll(
            args,
            folder / "cache",
            splits=["train"],
            options=ExtractOptions(dtype="float32", keep=("words",), limit=SENTENCES),
        )
        report([*copying(args, entry, folder), converting(args, entry, folder)], args)


def copying(args: argparse.Namespace, entry: Entry, folder: Path) -> list[Claim]:
    """Return the claims of copying."""
    to = folder / "copy"

    def ours() -> None:
        shutil.rmtree(to, ignore_errors=True)
        EntryCopy.of(entry.path, to).apply()

    def plain(*, sync: bool) -> None:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        subprocess.run(["cp", "-r", str(entry.path), str(to)], check=True)
        if sync:
            subprocess.run(["sync", "-f", str(to)], check=True)

    sides = {
        "ours": timed(ours),
        "cp": timed(lambda: plain(sync=False)),
        "synced": timed(lambda: plain(sync=True)),
    }
    timings = alternate(sides, args.rounds)
    told = _told(entry, timings)
    return [
        at_least(
            COPY,
            "`cache copy` against `cp -r` and `sync`, by their speed",
            timings.ratio("synced", "ours"),
            COPY_AIM,
            told,
        ),
        Claim(
            number=COPY,
            title="`cache copy` against `cp -r` alone, which does not wait for the disk",
            aim="none",
            found=f"{timings.ratio('cp', 'ours')} x",
            reached=None,
        ),
    ]


def converting(args: argparse.Namespace, entry: Entry, folder: Path) -> Claim:
    """Return the claim of converting."""
    array, to = entry.arrays["words"], folder / "converted"
    rows, files = array.spec.chunk_rows, WholeFiles()

    def ours() -> None:
        shutil.rmtree(to, ignore_errors=True)
        plan_conversion(entry.path, dtype="float16", root=to).apply()

    def plain() -> None:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for start in range(0, array.rows, rows):
            block = array.read(slice(start, start + rows)).to(torch.float16)
            for layer in range(len(array.layers)):
                data = block[:, layer].contiguous().numpy().data
                files.write(to / f"{start}.{layer}", data)

    timings = alternate({"ours": timed(ours), "plain": timed(plain)}, args.rounds)
    return at_least(
        CONVERT,
        "`cache convert` from float32 to float16 against reading, rounding and writing, by their "
        "speed",
        timings.ratio("plain", "ours"),
        CONVERT_AIM,
        _told(entry, timings),
    )


def _told(entry: Entry, timings: Timings) -> str:
    size = sum(spec.nbytes for spec in entry.manifest.arrays)
    seconds = ", ".join(f"{side} {timings.median(side):.2f} s" for side in timings.seconds)
    return f"{human_bytes(size)}: {seconds}"


if __name__ == "__main__":
    main()
