"""``probekit demo``: the whole job on real text with a real model, in under two minutes."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probekit.base.numbers.seeding import parse_seeds
from probekit.cli import arguments
from probekit.cli.output import progress_wanted, show
from probekit.cli.record_tables import print_records

if TYPE_CHECKING:
    from probekit.results import Record

logger = logging.getLogger(__name__)

TASK = "demo-ner"
SOLVED = ("last", "mean")
HEADS = (*SOLVED, "p32", "attention-fusion", "concat", "dwatt")
EPOCHS = 20
SELECT = "hold-out:0.1"
"""What chooses for all heads alike: the corpus has no test split, so dev is only scored."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for cache, records and figures.")] = (
        Path("demo")
    ),
    seeds: Annotated[
        str, typer.Option("--seeds", callback=arguments.check_seeds, help=arguments.SEEDS_HELP)
    ] = "3",
) -> None:
    """Cache MiniLM-L6 over a small NER corpus, train six heads, probe every depth, report."""
    from probekit.backbone import demo_model_folder
    from probekit.extraction import extract
    from probekit.page.report_page import ReportOptions, write_report
    from probekit.plots.depth import plot_depth
    from probekit.plots.style import save_figure
    from probekit.plots.weights import plot_weights
    from probekit.train.sweeps.specs import depths

    start, each_seed = time.perf_counter(), parse_seeds(seeds)
    model = _named_link(demo_model_folder(), out / "minilm-l6")
    logger.info("1/3 run %s over %s once, cache all 7 layers", model, TASK)
    entries = extract(model, TASK, cache=out / "cache")
    n_blocks = entries[0].manifest.n_blocks
    logger.info("2/3 train %d heads x %d seeds from the cache", len(HEADS), len(each_seed))
    fused = _sweep(model, out, head=list(HEADS), seed=each_seed)
    logger.info("3/3 solve a linear probe at every depth 0..%d", n_blocks)
    by_depth = _sweep(model, out, predictions=True, head=["last"], depth=list(depths(n_blocks)))
    save_figure(plot_weights(fused), out / "weights.png")
    save_figure(plot_depth(by_depth), out / "depth.png")
    write_report([*fused, *by_depth], out / "report.html", ReportOptions(cache=out / "cache"))
    print_records(fused)
    show(_next_steps(model, out, time.perf_counter() - start))


def _sweep(
    model: str, out: Path, *, predictions: bool = False, **varied: Sequence[object]
) -> "list[Record]":
    from probekit.base.machine.hardware import usable_cores
    from probekit.features import Location
    from probekit.train.sweeps.run import sweep
    from probekit.train.sweeps.specs import TrainSpec, product

    base = TrainSpec(model=model, task=TASK, head="last", select=SELECT)
    plan = product(base, varied)
    return sweep(
        [spec if spec.head in SOLVED else replace(spec, epochs=EPOCHS) for spec in plan],
        out=out / f"{TASK}.jsonl",
        location=Location(cache=out / "cache"),
        workers=min(2, usable_cores()),
        predictions=predictions,
        progress=progress_wanted(),
    )


def _named_link(folder: Path, link: Path) -> str:
    """Give the model's folder a name that reads well, unless something else has it."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() and not link.exists():
        link.symlink_to(folder, target_is_directory=True)
    return str(link if link.resolve() == folder.resolve() else folder)


def _next_steps(model: str, out: Path, seconds: float) -> str:
    return f"""
Done in {seconds:.0f} s. Open {out}/report.html in a browser: scores, curves, and every example with
what each depth predicts of it. Its figures for a paper are {out}/weights.png (how each head weighs
the layers; 1: alike) and {out}/depth.png. From the same cache, try next:

  probekit sweep {model} {TASK} --cache {out}/cache --head p32,dwatt --shots 8,32 --seeds 3
  probekit depth {model} {TASK} --cache {out}/cache --head last,mean
  probekit train {model} {TASK} --cache {out}/cache --head concat --save {out}/concat
  echo "Washington met the board of Amazon in Paris ." | probekit predict {out}/concat -

On your own data (word and label columns, blank lines between sentences), or a published corpus:

  probekit extract {model} my-folder --kind tagging
  probekit extract roberta-large conll --data FOLDER-WITH-eng.train"""
