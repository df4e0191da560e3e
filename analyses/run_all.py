"""Run every analysis: extract what is missing, train what is missing, write tables and figures.

    make analyses MODELS=models DATA=data

Everything resumes: an entry that is whole is not extracted again, a run that is recorded is not
trained again. Delete ``results/NAME.jsonl`` to train an analysis anew. Entries, saved heads and
predictions lie in --cache and --work, and are not tracked.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from shared import RESULTS
from subjects import DECODER, ENCODERS, MODELS, SUBJECTS

from probekit import load_records

HERE = Path(__file__).parent
SMALL, LARGER = ENCODERS
WITHOUT_CACHE = ("interval_coverage.py", "duplicates.py", "fits.py")
"""Scripts that read no entry."""
TEXTS = ("rte", "sst2")
"""Tasks that say which pooling reads whole texts best."""

WORDS = ("wikiann/en", "ud/en_ewt", "conll")
"""Tasks of words."""

Command = tuple[str, ...]


def main() -> None:
    """Run all commands in their order, and name those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--work", type=Path, default=Path("runs"))
    parser.add_argument("--workers", default="2")
    parser.add_argument("--only", nargs="+", metavar="SCRIPT", help="such as depths.py")
    args = parser.parse_args()
    failed = []
    commands = [*extractions(args.models, args.data), *programs(args)]
    for command in commands:
        if args.only and command[0].endswith(".py") and Path(command[0]).name not in args.only:
            continue
        print(f"== {' '.join(command)}", flush=True)
        extracting = ("-m", "probekit") if command[0] == "extract" else ()
        without = Path(command[0]).name in WITHOUT_CACHE or "--cache" in command
        options = () if without else ("--cache", str(args.cache))
        if subprocess.run([sys.executable, *extracting, *command, *options]).returncode != 0:
            failed.append(" ".join(command))
    print(f"{hours():.0f} hours of one core are recorded")
    if failed:
        sys.exit("failed:\n" + "\n".join(failed))


def hours() -> float:
    """Return the time that all recorded runs took, as the sum of their own seconds."""
    files = sorted(RESULTS.glob("*.jsonl"))
    return sum(record.train_seconds for record in load_records(files)) / 3600


def extractions(models: Path, data: Path) -> Iterator[Command]:
    """Yield the extraction of every model and task."""
    for model in MODELS:
        for task, subject in SUBJECTS.items():
            yield (
                "extract",
                str(models / model),
                task,
                "--data",
                str(data / subject.folder),
                "--split",
                subject.splits,
                *subject.extracted(model),
            )
    for language in ("de", "fr"):
        task = f"wikiann/{language}"
        yield (
            *("extract", str(models / SMALL), task, "--data", str(data / task)),
            *("--split", "train,dev,test", "--limit", "5000"),
        )
    yield (
        *("extract", str(models / DECODER), "wikitext2", "--data", str(data / "wikitext2")),
        *("--split", "dev,test", "--every", "8"),
    )


def programs(args: argparse.Namespace) -> Iterator[Command]:
    """Yield the command of every analysis, the cheapest first."""
    small, larger, decoder = (str(args.models / model) for model in MODELS)
    workers = ("--workers", args.workers)
    yield (_path("interval_coverage.py"),)
    yield (_path("alarm_coverage.py"),)
    yield _path("audit_level.py"), small
    yield _path("audits.py"), small, "--data", str(args.data / "suites" / "sae-probes")
    yield _path("structural.py"), small, larger
    yield _path("edge_order.py"), small, larger
    yield _path("suites.py"), small, larger, decoder, "--data", str(args.data / "suites"), *workers
    yield (_path("duplicates.py"), "--data", str(args.data))
    own = ("--cache", str(args.work / "cache_is_right"))  # several entries of one split
    words = str(args.data / SUBJECTS["conll"].folder)
    yield (_path("cache_is_right.py"), words, small, larger, decoder, *own)
    own = ("--cache", str(args.work / "compute_dtype"))  # as these are
    yield (_path("compute_dtype.py"), small, str(args.data), *own)
    own = ("--cache", str(args.work / "block_points"))  # entries of several points
    yield (_path("block_points.py"), small, larger, "--data", str(args.data), *workers, *own)
    own = ("--cache", str(args.work / "suite_points"))
    tasks = ("--data", str(args.data / "suites" / "sae-probes"))
    yield (_path("suite_points.py"), small, *tasks, *workers, *own)
    own = ("--cache", str(args.work / "token_heads"))  # of tokens
    yield (_path("token_heads.py"), small, *tasks, *workers, *own)
    rates = (f"{small}:conll:ner", f"{larger}:conll:ner", f"{decoder}:atis")
    texts = [f"{model}:glue/{name}" for model in (small, larger, decoder) for name in TEXTS]
    words_of = (f"{small}:conll:ner", f"{small}:conll:chunk", f"{larger}:conll:ner")
    yield (_path("default_rows.py"), f"{small}:atis:intent", *texts, *words_of, *workers)
    yield (_path("depths.py"), small, larger, decoder, *workers)
    yield (_path("overthinking.py"), larger, decoder, *workers)
    yield (_path("nine_tasks.py"), small, *workers)
    yield (_path("nine_tasks.py"), decoder, "--tasks", *WORDS, *workers)
    yield (_path("attended_layers.py"), small, *workers)
    yield (_path("conll_all.py"), small, *workers)
    yield (_path("less_data.py"), small, larger, decoder, *workers)
    yield (_path("selectivity.py"), small, *workers)
    yield (_path("crf.py"), small, larger, "--large", small, *workers)
    yield (_path("transfer_wikiann.py"), small, "--work", str(args.work), *workers)
    yield (_path("wikitext_depth.py"), decoder, *workers)
    own = ("--data", str(args.data), "--cache", str(args.work / "next_token"))  # of short texts
    yield (_path("next_token.py"), decoder, *own)
    yield (_path("default_rates.py"), *rates, *workers)
    yield (_path("rows_and_fitters.py"), small, larger, *workers)
    yield (_path("fewshot_heads.py"), small, larger, "--large", small, larger, *workers)
    yield (_path("dwatt_and_concat.py"), small, *workers)
    yield (_path("finetuned_fewshot.py"), small, *workers)
    yield (_path("solved_start.py"), small, *workers)
    yield (_path("p32_finetuned.py"), small, decoder, *workers)
    yield (_path("early_and_late.py"), small, *workers)
    data = ("--data", str(args.data), "--work", str(args.work))
    own = ("--cache", str(args.work / "finetuned_transfer"))  # of fewer sentences
    yield (_path("finetuned_transfer.py"), small, *data, *workers, *own)
    own = ("--cache", str(args.work / "finetuned_wikitext"))  # of shorter windows
    yield (_path("finetuned_wikitext.py"), decoder, *data[:2], *workers, *own)
    yield (_path("fits.py"),)


def _path(name: str) -> str:
    return str(HERE / name)


if __name__ == "__main__":
    main()
