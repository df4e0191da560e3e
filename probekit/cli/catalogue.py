"""``probekit tasks``, ``heads`` and ``demo``: what there is to choose from, and a first run."""

import logging
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probekit.base.kinds import KINDS
from probekit.base.plugins import Registry
from probekit.cli import arguments
from probekit.cli.output import print_records, print_table, progress_wanted, show
from probekit.errors import OptionError
from probekit.train.sweeps.protocols import PROTOCOLS

if TYPE_CHECKING:
    from probekit.results import Record

logger = logging.getLogger(__name__)


def tasks(
    family: Annotated[
        str | None,
        typer.Argument(metavar="FAMILY", help="List one family: ud has the treebanks of the Hub."),
    ] = None,
    data: arguments.Data = None,
    json: arguments.Json = False,
) -> None:
    """List the tasks, their label columns (default first) and metrics; or those of one family."""
    from probekit.tasks import TASKS, variants_of

    if family is not None:
        print_table([{"task": name} for name in variants_of(family, data)], json=json)
        return
    if data is not None:
        raise OptionError("--data lists the treebanks of a folder: probekit tasks ud --data DIR.")

    rows = [
        {
            "task": task.name
            if family.variants or not family.variant
            else f"{name}/{family.variant}",
            "kind": " + ".join(dict.fromkeys(task.kinds.values())),
            "labels": list(task.columns),
            "metric": list(dict.fromkeys(task.metrics.values())),
            "text": family.summary,
        }
        for name, family in TASKS.items()
        for task in family.tasks()
    ]
    print_table(rows, json=json)
    if not json:
        show(
            "\nThe first label column is the default. Your own data: give the path of a .conll, "
            ".conllu, .jsonl, .json, .parquet, .csv, .tsv or .txt file, or of a folder with one "
            "file (or its shards) per split, or the name of a data set of the Hub; --kind says "
            "what it labels. `probekit tasks ud` lists the treebanks."
        )


def heads(json: arguments.Json = False) -> None:
    """List heads, token heads, decoders, methods of fine-tuning and protocols, with options."""
    from probekit.probe.decoders import DECODERS
    from probekit.probe.heads import HEADS
    from probekit.probe.token_heads import TOKEN_HEADS
    from probekit.tuning import METHODS

    rates = {"lr": "learning_rate", "rates": "group_rates"}
    what, of_heads = {"what": "summary"}, {"h =": "formula", "layers": "default_layers"}
    tables = (
        _rows("head", HEADS, of_heads | rates, words=not json),
        _rows("token-head", TOKEN_HEADS, {"row =": "formula"}, words=not json),
        _rows(
            "decoder", DECODERS, {"for": "kinds", **what, "rates": "group_rates"}, words=not json
        ),
        _rows("method", METHODS, what | rates, words=not json),
        [
            {"protocol": name, "heads": [*own.heads], "what": own.summary, "source": own.source}
            for name, own in PROTOCOLS.items()
        ],
    )
    for number, rows in enumerate(tables):
        if number and not json:
            show()
        print_table(rows, json=json)
    if not json:
        show(
            "\nOptions follow the name: --head extra-layers:n=2, --decoder mlp:hidden=128, "
            "--token-head attention:heads=4, --method lora:rank=4. "
            "A protocol fills in what is not given on the command line.\n"
            "Rates are those of groups of parameters beside lr: --lr mixing=0.1."
        )


def _rows(
    kind: str, registry: Mapping[str, Any], columns: Mapping[str, str], *, words: bool
) -> list[dict[str, Any]]:
    """Return a row for each plug-in: its name, some attributes, options and source.

    Args:
        kind: what it is, as the first column is called.
        registry: the plug-ins by name.
        columns: by the column's name, the attribute.
        words: whether words stand for a default that depends on the backbone.
    """
    rows = []
    for name, plugin in registry.items():
        origin = registry.origin(name) if isinstance(registry, Registry) else None
        package = "" if origin is None else f" ({origin.package or origin.path})"
        about = {column: _shown(getattr(plugin, named)) for column, named in columns.items()}
        ends = {"options": _defaults(plugin, words), "source": f"{plugin.source}{package}"}
        rows.append({kind: name, **about, **ends})
    return rows


def _shown(value: Any) -> Any:
    """Return an attribute of a plug-in as a table shows it."""
    if isinstance(value, Set):  # of kinds of labels
        return [kind for kind in KINDS if kind in value]
    if isinstance(value, Mapping):  # groups of parameters, with their default rates
        return [f"{name}={'lr' if rate is None else rate}" for name, rate in value.items()]
    return "-" if value == 0 else value  # a method that trains nothing has no rate


def _defaults(spec: type, words: bool) -> list[str]:
    """Return the options of a plug-in with their defaults; what ``repr`` hides is not typed."""
    return [
        f"{field.name}={(words and field.metadata.get('unset')) or str(field.default).lower()}"
        for field in fields(spec)
        if field.init and field.repr
    ]


DEMO_TASK = "demo-ner"
SOLVED = ("last", "mean")
DEMO_HEADS = (*SOLVED, "p32", "attention-fusion", "concat", "dwatt")
DEMO_SEEDS = (0, 1, 2)
EPOCHS = 20
SELECT = "hold-out:0.1"
"""What chooses for all heads alike: the corpus has no test split, so dev is only scored."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for cache, records and figures.")] = (
        Path("demo")
    ),
) -> None:
    """Cache MiniLM-L6 over a small NER corpus, train six heads, probe every depth, report."""
    from probekit.backbone import demo_model_folder
    from probekit.extraction import extract
    from probekit.page.report_page import ReportOptions, write_report
    from probekit.plots.depth import plot_depth
    from probekit.plots.style import save_figure
    from probekit.plots.weights import plot_weights
    from probekit.train.sweeps.specs import depths

    start = time.perf_counter()
    model = _named_link(demo_model_folder(), out / "minilm-l6")
    logger.info("1/3 run %s over %s once, cache all 7 layers", model, DEMO_TASK)
    entries = extract(model, DEMO_TASK, cache=out / "cache")
    n_blocks = entries[0].manifest.n_blocks
    logger.info("2/3 train %d heads x %d seeds from the cache", len(DEMO_HEADS), len(DEMO_SEEDS))
    fused = _sweep(model, out, head=list(DEMO_HEADS), seed=DEMO_SEEDS)
    logger.info("3/3 solve a linear probe at every depth 0..%d", n_blocks)
    by_depth = _sweep(model, out, head=["last"], depth=list(depths(n_blocks)))
    save_figure(plot_weights(fused), out / "weights.png")
    save_figure(plot_depth(by_depth), out / "depth.png")
    write_report([*fused, *by_depth], out / "report.html", ReportOptions(cache=out / "cache"))
    print_records(fused)
    show(_next_steps(model, out, time.perf_counter() - start))


def _sweep(model: str, out: Path, **varied: Sequence[object]) -> "list[Record]":
    from probekit.base.machine import usable_cores
    from probekit.features import Location
    from probekit.train.sweeps.run import sweep
    from probekit.train.sweeps.specs import TrainSpec, product

    base = TrainSpec(model=model, task=DEMO_TASK, head="last", select=SELECT)
    plan = product(base, varied)
    return sweep(
        [s if s.head in SOLVED else replace(s, fit="adam", epochs=EPOCHS) for s in plan],
        out=out / f"{DEMO_TASK}.jsonl",
        location=Location(cache=out / "cache"),
        workers=min(2, usable_cores()),
        predictions="new",
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

  probekit sweep {model} {DEMO_TASK} --cache {out}/cache --head p32,dwatt --shots 8,32 --seeds 3
  probekit depth {model} {DEMO_TASK} --cache {out}/cache --head last,mean
  probekit train {model} {DEMO_TASK} --cache {out}/cache --head concat --save {out}/concat
  echo "Washington met the board of Amazon in Paris ." | probekit predict {out}/concat -

On your own data (word and label columns, blank lines between sentences), or a published corpus:

  probekit extract {model} my-folder --kind tagging
  probekit extract roberta-large conll --data FOLDER-WITH-eng.train"""
