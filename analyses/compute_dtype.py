"""What computing in bfloat16 costs a probe, against the same rows computed in float32.

One encoder, both stored as float16: probes of every layer and of the average of all, solved on the
first 1,000 sentences of train, scored on those of dev. Both predict the same sentences, so their
differences are paired. Where bfloat16 is not native it is emulated, and slow. Finished runs are
skipped.

    python analyses/compute_dtype.py MODEL DATA [--cache FOLDER]
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from shared import RESULTS, argument_parser, markdown, signed, write
from subjects import SUBJECTS, subject

from probekit import ExtractOptions, Location, Record, TrainSpec, compare, extract, sweep
from probekit.extraction.maintenance import verify_rows
from probekit.results.comparison.runs import RecordedRun
from probekit.store import Entry

NAME = "compute_dtype"
TASKS = ("conll", "glue/rte")
SENTENCES = 1000
ROWS = 200

INTRODUCTION = f"""\
Dev scores in percent of probes that were solved on {SENTENCES:,} sentences, rows computed in
float32 and in bfloat16, both stored as float16. Row error is the median over {ROWS} rows computed
in bfloat16 of |a - b| / |b| against a fresh float32 pass. Behind a difference is its 95 % interval
over dev sentences (paired bootstrap). Five folds of train chose the strength of L2. In the last
column, the probe on bfloat16 rows uses the strength chosen on float32 rows."""


def main() -> None:
    """Extract and train what is missing, then write the table."""
    parser = argument_parser(__doc__, "model")
    parser.add_argument("data", type=Path, help="folder of the folders of tasks")
    args = parser.parse_args()
    lines = [line for task in TASKS for line in measured(task, args)]
    header = ["task", "read", "row error", "float32", "bfloat16", "difference", "at the same L2"]
    write(NAME, ["# What bfloat16 costs in scores", INTRODUCTION, markdown(header, lines, words=2)])


def measured(task: str, args: argparse.Namespace) -> Iterator[Sequence[str]]:
    """Yield the lines of a task: every layer, and the average."""
    single, half = (partial(probed, args.cache / dtype) for dtype in ("float32", "bfloat16"))
    entry, _ = (rows(task, dtype, args) for dtype in ("bfloat16", "float32"))
    errors = verify_rows(entry, ROWS, device="cpu")
    base = subject(args.model, task, fraction=None, select="cv:5")
    plan = [replace(base, depth=layer) for layer in errors.layers]
    plan.append(replace(base, head="mean"))
    exact = single(plan)
    held = [
        replace(spec, select=None, l2=one.diagnosis["strength"])
        for spec, one in zip(plan, exact, strict=True)
    ]
    for one, *others in zip(exact, half(plan), half(held), strict=True):
        read = "average" if one.depth is None else f"layer {one.depth}"
        error = "-" if one.depth is None else f"{errors.median[one.depth]:.1e}"
        scores = [f"{100 * record.eval_score:.1f}" for record in (one, others[0])]
        yield [task, read, error, *scores, *(difference(other, one) for other in others)]


def rows(task: str, dtype: str, args: argparse.Namespace) -> Entry:
    """Return the train entry of a task, computed in a dtype."""
    options = ExtractOptions(compute_dtype=dtype, dtype="float16", limit=SENTENCES)
    where = {"data": args.data / SUBJECTS[task].folder, "cache": args.cache / dtype}
    splits = ["train", "dev"]
    return extract(args.model, task, splits=splits, options=options, device="cpu", **where)[0]


def probed(cache: Path, plan: Sequence[TrainSpec]) -> list[Record]:
    """Return the records of probes over the rows in a cache."""
    return sweep(
        plan,
        out=RESULTS / f"{NAME}.jsonl",
        location=Location(cache=cache),
        predictions=True,
        progress=True,
    )


def difference(a: Record, b: Record) -> str:
    """Return the difference of two runs in points, with its interval."""
    found = compare(RecordedRun.of("a", [a]), RecordedRun.of("b", [b]))
    return signed(found.difference, found.low, found.high)


if __name__ == "__main__":
    main()
