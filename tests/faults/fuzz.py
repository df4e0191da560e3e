"""Damaged and strange inputs of every reader: it reads them, or refuses in the project's own words.

Seeds are files that the project's own commands and readers take. Each input is a seed with bits,
runs of bytes and words changed. An input that ends in any other error, takes 5 seconds or a
gigabyte of memory does not hold, and is kept in --keep.

    python -m tests.faults.fuzz --inputs 100000
"""

import argparse
import json
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults import shim
from tests.faults.cycles import asked
from tests.faults.world import World

SECONDS, BYTES = 5, 2**30
BATCH = 250

TOKENS = [
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[2J", b"\r\n", b"\n\n", b"\t", b'"', b"'"),
    *(b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"NaN", b"-1", b"1e999", b"9" * 30),
    *(b"\\ud800", "\u202e".encode(), "é".encode(), b"../..", b"a" * 5000, b"[" * 2000, b"-" * 70),
]

Reader = Callable[[Path], object]


def readers() -> dict[str, tuple[str, Reader]]:
    """Return what reads a file, by name, and the seed that it reads in the world's base folder."""
    from probekit import load_records
    from probekit.base.layers import parse_layers
    from probekit.base.selection import Selection
    from probekit.cli.app import app
    from probekit.page.report_page import ReportOptions, page_data
    from probekit.results import select
    from probekit.results.predictions import read_predicted
    from probekit.results.tables import score_table
    from probekit.store.entry import Entry
    from probekit.store.labels import read_labels
    from probekit.tasks import TextOptions, get_task
    from probekit.train.saved.head import TrainedHead

    def texts(path: Path) -> object:
        return get_task(str(path), TextOptions(kind="sentence")).read("train")

    def words(path: Path) -> object:
        return get_task(str(path), TextOptions(kind="tagging")).read("train")

    def records(path: Path) -> object:
        table = score_table(load_records(path))
        return [table.text(style) for style in ("text", "csv", "html", "latex")]

    def of_entry(read: Callable[[Entry], object]) -> Reader:
        return lambda path: read(Entry.open(_entry_of(path)))

    def rows(entry: Entry) -> object:
        return [array.read(slice(None)) for array in entry.arrays.values()]

    def lines(read: Callable[[str], object]) -> Reader:
        return lambda path: [
            _own(lambda one=one: read(one))
            for one in path.read_text("utf-8", "replace").split("\n")
        ]

    def config(path: Path) -> object:
        try:
            return app(["heads", "--config", str(path), "--json"], standalone_mode=False)
        except SystemExit:
            return None

    base = load_records("runs/base.jsonl")
    entry = "cache/bert/texts-*/train-*"
    return {
        **{f"texts as {form}": (f"seeds/train.{form}", texts) for form in _TEXTS},
        **{f"words as {form}": (f"seeds/words.{form}", words) for form in _WORDS},
        "a card of a data set": ("seeds/carded/README.md", lambda p: texts(p.parent)),
        "records and tables": ("runs/base.jsonl", records),
        "the page": (
            "runs/base.jsonl",
            lambda p: page_data(load_records(p), ReportOptions(samples=20)),
        ),
        "predictions": ("runs/base-predictions/*", lambda p: read_predicted(p)),
        "a manifest": (f"{entry}/manifest.json", of_entry(lambda one: one.manifest)),
        "examples": (f"{entry}/examples.parquet", of_entry(lambda one: one.examples.n_rows)),
        "checksums": (f"{entry}/checksums.parquet", of_entry(rows)),
        "metadata of Zarr": (f"{entry}/features.zarr/mean/zarr.json", of_entry(rows)),
        "labels": ("cache/bert/texts-*/labels/*", lambda p: read_labels(p)),
        "a saved head": ("head/**/config.json", lambda p: TrainedHead.from_pretrained(p.parent)),
        "weights of a head": (
            "head/**/*.safetensors",
            lambda p: TrainedHead.from_pretrained(p.parent),
        ),
        "a config file": ("seeds/run.toml", config),
        "layers": ("seeds/layers", lines(lambda text: parse_layers(text, 12))),
        "conditions": ("seeds/where", lines(lambda text: select(base, [text]))),
        "selections": ("seeds/select", lines(Selection.parse)),
    }


_TEXTS = ("jsonl", "json", "csv", "tsv", "parquet", "csv.gz")
_WORDS = ("conll", "conllu", "jsonl", "tsv")


def _entry_of(path: Path) -> Path:
    while not (path / "features.zarr").is_dir():
        path = path.parent
    return path


def _own(work: Callable[[], object]) -> object:
    """Return what some work returns; None where the project refuses."""
    from probekit.errors import ProbekitError

    try:
        return work()
    except ProbekitError:
        return None


def write_seeds(folder: Path) -> None:
    """Write inputs that are read as they are."""
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = folder / "seeds"
    (seeds / "carded").mkdir(parents=True)
    table = [{"id": n, "text": f"good day {n}", "label": f"c{n % 2}"} for n in range(6)]
    lined = "\n".join(map(json.dumps, table)) + "\n"
    comma = "id,text,label\n" + "".join(f'{one["id"]},"{one["text"]}",x\n' for one in table)
    tagged = [{"tokens": ["sun", "moon"], "tags": ["B-X", "O"]} for _ in range(4)]
    columns = "sun\tB-X\nmoon\tO\n\nred\tO\ntree\tB-X\n"
    row = "{n}\t{w}\t{w}\tNOUN\tNN\t_\t0\troot\t_\t_\n"
    treebank = "# text = sun moon\n" + "".join(
        row.format(n=n, w=w) for n, w in ((1, "a"), (2, "b"))
    )
    card = "---\ndataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label:\n"
    for name, text in {
        "train.jsonl": lined, "train.json": json.dumps(table), "train.csv": comma,
        "train.tsv": comma.replace(",", "\t"), "words.conll": columns, "words.tsv": columns,
        "words.conllu": treebank + "\n", "words.jsonl": "\n".join(map(json.dumps, tagged)),
        "carded/train.jsonl": lined.replace('"c', '"'), "run.toml": "[train]\nhead = 'last'\n",
        "carded/README.md": f"{card}        names:\n          '0': no\n          '1': yes\n---\n",
        "layers": "all\n-1\n0,4,8\n0:12:2", "where": "head=last\ndepth=1,2\nmodel='bert'",
        "select": "dev\ncv:5\nhold-out:0.1\nfolds:3",
    }.items():  # fmt: skip
        (seeds / name).write_text(text, "utf-8")
    (seeds / "train.csv.gz").write_bytes(gzip.compress(comma.encode()))
    pq.write_table(pa.Table.from_pylist(table), seeds / "train.parquet")


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """Return a seed with some of it changed."""
    data = bytearray(seed)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(data) + 1)
        until = min(len(data), at + draw.choice((1, 2, 8, 64, 512)))
        kind = draw.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at:until]
        elif kind == 2:
            data[at:at] = data[at:until]
        elif kind == 3:
            data[at:at] = draw.choice(TOKENS)
        elif kind == 4:
            data[at:until] = draw.choice(TOKENS)
        else:
            data[at:until] = bytes(draw.randrange(256) for _ in range(until - at))
    return bytes(data)


def batch(path: Path, read: Reader, seeds: Sequence[int], keep: Path) -> None:
    """Read many inputs in this child; what does not hold is kept, with what it ended in."""
    from probekit.errors import ProbekitError

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seed = path.read_bytes()

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    for number in seeds:
        path.unlink()
        path.write_bytes(mutated(seed, random.Random(number)))
        signal.alarm(SECONDS)
        trouble = ""
        try:
            read(path)
        except ProbekitError:
            pass
        except Exception:
            trouble = traceback.format_exc()
        signal.alarm(0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - held > BYTES:
            held, trouble = 2**62, trouble or f"more than {BYTES:,} bytes"
        if trouble:
            name = f"{path.name}-{number}"
            (keep / name).write_bytes(path.read_bytes())
            (keep / f"{name}.txt").write_text(trouble)
    os._exit(0)


def main() -> None:
    """Read all inputs, print a line for each reader, and fail where something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, default=Path("fuzzed"))
    args = parser.parse_args()
    shim.under_shim(["-m", "tests.faults.fuzz", *sys.argv[1:]])
    with tempfile.TemporaryDirectory(prefix="probekit-fuzz-") as folder:
        world = World(Path(folder))
        world.build()
        broken = fuzzed(world, args.inputs, args.keep.resolve(), args.seed, args.only)
    sys.exit(min(broken, 1))


def fuzzed(world: World, inputs: int, keep: Path, seed: int = 0, only: str = "") -> int:
    """Read all inputs, print a line for each reader; return how many did not hold."""
    broken = 0
    world.begin("base")
    world.call(lambda: write_seeds(world.work))
    world.keep("base")
    os.chdir(world.work)
    found = {n: one for n, one in readers().items() if asked(n, only)}
    each = -(-inputs // len(found))
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    for place, (name, (pattern, read)) in enumerate(found.items()):
        before, lost = len(list(keep.iterdir())), 0
        for start in range(0, each, BATCH):
            world.begin("base")
            path = next(iter(sorted(world.work.glob(pattern))))
            first = seed * 10**9 + place * 10**7 + start
            numbers = range(first, first + min(BATCH, each - start))
            code = world.call(lambda p=path, r=read, n=numbers: batch(p, r, n, keep))
            lost += code != 0
            if code:
                print(f"fuzz, {name}: inputs {numbers} ended with {code}: {world.output[-300:]}")
        wrong = (len(list(keep.iterdir())) - before) // 2 + lost
        print(f"| fuzz | {name} | {each:,} | {each - wrong:,} |", flush=True)
        broken += wrong
    return broken


if __name__ == "__main__":
    main()
