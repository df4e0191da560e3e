"""Are attention and feed-forward outputs easier to read than the residual stream, and which heads?

Solved probes of every layer at three points of the blocks of a model, on nine tasks: the residual
stream, what attention adds to it, and what the feed-forward part adds (asked by arXiv 2604.14865
and 2603.05280). Of each point the best layer is chosen by what chose the strength of L2, and
compared on other sentences. Beside that, a probe of every attention head on parts of speech and on
entities. Models after the first read the six tasks of whole texts alone. Tasks whose
sentences are drawn have three seeds, others one. Finished runs are skipped.

On one core: half an hour for MiniLM, an hour for MPNet.

    python analyses/block_points.py MODEL [MODEL ...] --data FOLDER --workers 2
"""

import argparse
from dataclasses import replace

from shared import RESULTS, Run, argument_parser, best_single, judged, runner, single_layers, write
from subjects import SUBJECTS, Subject, subject

from probekit import (
    ExtractOptions,
    Location,
    Record,
    extract,
    open_features,
    plot_points,
    save_figure,
)
from probekit.base.layers import RESID_POST, ReadPoint
from probekit.results.summaries.wording import model_text

NAME = "block_points"
POINTS = (RESID_POST, "attn_out", "mlp_out")
OF_HEADS = ("ud/en_ewt", "conll")
SEEDS = range(3)

INTRODUCTION = f"""\
Scores in percent, each task's metric: test of CoNLL-2003, WikiAnn, UD and ATIS, dev of the others.
Probes are solved, on raw rows. `{RESID_POST}` is the best layer of the residual stream, `attn_out`
of what attention adds to it, `mlp_out` of what the feed-forward part adds: each the layer with the
best score on the data that chose the strength of L2. The last column is the difference to the
residual stream with its 95 % interval, over seeds and sentences together where seeds differ, else
over sentences (documents where the corpus has them), in bold what is sure at 5 % after Holm's
correction of all rows of the table. MPNet read whole texts alone."""


def main() -> None:
    """Extract and train what is missing, then write the table and a figure per model."""
    parser = argument_parser(__doc__, "models", data=True)
    parser.add_argument("--tasks", nargs="+", default=list(SUBJECTS))
    args = parser.parse_args()
    run = runner(RESULTS / f"{NAME}.jsonl", args, predictions=True)
    best: list[Record] = []
    for model in args.models:
        is_first = args.models[0] == model
        for task in [task for task in args.tasks if is_first or SUBJECTS[task].of_texts]:
            extract_points(model, task, SUBJECTS[task], args)
            base = subject(model, task)
            seeds = SEEDS if base.fraction else SEEDS[:1]
            for point in POINTS:
                plan = single_layers(replace(base, point=point), args.cache, seeds)
                best += [replace(one, head=point) for one in best_single(run(plan))]
    title = "Best layer of each point, against the residual stream"
    write(NAME, ["# Points of a block", INTRODUCTION, judged(title, best, RESID_POST)])
    draw_heads(args.models[0], run, args)


def extract_points(model: str, task: str, of: Subject, args: argparse.Namespace) -> None:
    """Extract the points of a task, and the attention heads of those that have a figure."""
    points = (*POINTS, "z") if task in OF_HEADS else POINTS
    extract(
        model,
        task,
        splits=of.splits.split(","),
        data=args.data / of.folder,
        cache=args.cache,
        options=ExtractOptions(points=points, limit=of.limit_for(model)),
    )


def draw_heads(model: str, run: Run, args: argparse.Namespace) -> None:
    """Draw a probe of every attention head and layer, beside the best points of the layer."""
    for task in [task for task in args.tasks if task in OF_HEADS]:
        base = subject(model, task)
        splits = open_features(model, task, base.label, Location(cache=args.cache))
        heads = range(splits.manifest.attention_heads or 0)
        names = [str(ReadPoint("z", head)) for head in heads]
        plans = [replace(base, point=point) for point in (*POINTS, *names)]
        records = [one for plan in plans for one in run(single_layers(plan, args.cache, SEEDS[:1]))]
        name = f"{NAME}_{model_text(model).lower()}_{task.replace('/', '-')}"
        save_figure(plot_points(records), RESULTS / f"{name}.png")


if __name__ == "__main__":
    main()
