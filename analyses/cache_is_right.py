"""How far cached rows are from a fresh float32 pass over one sentence at a time.

For every model: float32 compute and bfloat16 compute, both stored as float16, against a fresh
pass; and int8 against its own unquantised (float32) rows. 200 random words of the first 500
sentences of a split, the same for all.

    python analyses/cache_is_right.py DATA MODEL [MODEL ...] [--cache FOLDER]
"""

import argparse
from pathlib import Path

from probekit import ExtractOptions, extract
from probekit.extraction.maintenance import RowErrors, verify_against, verify_rows
from probekit.store import Entry

RESULTS = Path(__file__).parent / "results"
ROWS = 200
SENTENCES = 500


def main() -> None:
    """Extract, compare, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with eng.testa")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    args = parser.parse_args()
    lines = [line for model in args.models for line in measure(model, args.data, args.cache)]
    text = "\n".join(
        [
            f"# Row errors |a - b| / |b| of {ROWS} cached words of CoNLL-2003 dev",
            "",
            "Median and 99th percentile over the words; of each, the worst layer.",
            "",
            "| model | compute | stored | against | median | 99th percentile | allowed median |",
            "|---|---|---|---|---|---|---|",
            *lines,
        ]
    )
    (RESULTS / "cache_is_right.md").write_text(text + "\n", encoding="utf-8")
    print(text)


def measure(model: str, data: Path, cache: Path) -> list[str]:
    """Return the table's lines for one model."""
    single = make_entry(model, data, cache, compute_dtype="float32", dtype="float16")
    native = make_entry(model, data, cache, compute_dtype="bfloat16", dtype="float16")
    exact = make_entry(model, data, cache, compute_dtype="float32", dtype="float32")
    small = make_entry(model, data, cache, compute_dtype="float32", dtype="int8")
    return [
        line(single, verify_rows(single, ROWS), "fresh float32 pass"),
        line(native, verify_rows(native, ROWS), "fresh float32 pass"),
        line(small, verify_against(small, exact, ROWS), "its unquantised rows"),
    ]


def make_entry(model: str, data: Path, cache: Path, *, compute_dtype: str, dtype: str) -> Entry:
    """Extract some sentences of the dev split."""
    options = ExtractOptions(
        compute_dtype=compute_dtype, dtype=dtype, limit=SENTENCES, keep=("words",)
    )
    (entry,) = extract(
        model, "conll", data=data, splits=["dev"], options=options, cache=cache, device="cpu"
    )
    return entry


def line(entry: Entry, errors: RowErrors, against: str) -> str:
    """Return one line of the table: the worst layer's figures."""
    manifest = entry.manifest
    median = max(range(len(errors.layers)), key=lambda place: errors.median[place])
    tail = max(range(len(errors.layers)), key=lambda place: errors.p99[place])
    return (
        f"| {manifest.model} | {manifest.compute_dtype} | {manifest.dtype} | {against} "
        f"| {errors.median[median]:.1e} (layer {errors.layers[median]}) "
        f"| {errors.p99[tail]:.1e} (layer {errors.layers[tail]}) | {errors.tolerance:.0e} |"
    )


if __name__ == "__main__":
    main()
