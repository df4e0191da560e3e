"""Next-token perplexity on WikiText-2 by head in a model that is trained (DWAtt, Table 3).

SmolLM2-135M under LoRA in place of a RoBERTa in full: the last layer (the paper's base), and DWAtt,
Concat and two new layers in front of the frozen output head. Dev is fitted on, as there is no train
file in the local data; a tenth of it, held out, chooses between two rates of a head, the paper's
and ten times that. One pass over five articles, one seed. What is missing is extracted; finished
runs are skipped.

The plan, of one core: 7 runs of 3 minutes.

    python analyses/finetuned_wikitext.py smollm2.gguf --data data --cache CACHE
"""

from dataclasses import replace

from shared import NEW, RESULTS, argument_parser, markdown, runner, write

from probekit import ExtractOptions, TrainSpec, extract, product
from probekit.train.sweeps.fitting import selected_score

NAME = "finetuned_wikitext"
TASK = "wikitext2"
BASE, FUSED = "last", ("dwatt", NEW, "concat")
RATES = (5e-5, 5e-4)

INTRODUCTION = """\
Perplexity per predicted token of five test articles, windows of 128 subwords (lower is better),
after one pass over five dev articles under LoRA (its rate 5e-4), two windows a step. What a head
adds starts from random values, and one pass is little for it: read it as an upper bound. The rate
is the one of two that was better on a held-out tenth. One seed."""


def main() -> None:
    """Train what is missing, then write the table."""
    args = argument_parser(__doc__, "model", data=True).parse_args()
    extract(
        args.model,
        TASK,
        data=args.data / TASK,
        splits=["dev", "test"],
        options=ExtractOptions(limit=5, every=2, max_length=128, layers="-1"),
        cache=args.cache,
    )
    run = runner(RESULTS / f"{NAME}.jsonl", args)
    base = TrainSpec(
        model=args.model,
        task=TASK,
        head=BASE,
        decoder="vocabulary",
        normalize="final-norm",
        fit_on="dev",
        hold_out=0.1,
        method="lora",
        epochs=1,
        batch_size=2,
        evals=2,
        lr=RATES[0],
    )
    frozen = run([replace(base, method=None, fit="adam", fraction=0.01)])
    best = run([base])
    for head in FUSED:
        tried = run(product(replace(base, head=head), {"lr": RATES}))
        best.append(min(tried, key=lambda one: selected_score(one) or float("inf")))
    lines = [
        [
            f"`{one.head}`",
            one.method or "-",
            f"{one.test_score:.1f}",
            f"{one.n_params - one.n_backbone_params:,}",
            f"{one.lr:g}" if one.n_params > one.n_backbone_params else "-",
        ]
        for one in (*frozen, *best)
    ]
    header = ["head", "method", "perplexity", "values of the head", "its rate"]
    title = f"# WikiText-2 perplexity of a model that is trained, {best[0].model}"
    write(NAME, [title, INTRODUCTION, markdown(header, lines)])


if __name__ == "__main__":
    main()
