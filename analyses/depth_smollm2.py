"""Truncated depth on a decoder: NER probes at every depth of SmolLM2-135M, raw and standardised.

Row norms of a decoder differ by orders of magnitude between layers, so a probe on raw rows is
partly a test of the optimiser; both curves are shown. SmolLM2-135M is causal: a word has seen
nothing to its right. Make the records, then the figure:

    probekit extract smollm2.gguf conll --data DATA --split train,dev,test
    probekit depth smollm2.gguf conll --head last --shots 128 --epochs 20 --evals 2 --seeds 3 \
        --normalize none,standardize --out analyses/results/depth_smollm2.jsonl
    python analyses/depth_smollm2.py
"""

from shared import RESULTS, write

from probekit import load_records, plot_depth, save_figure
from probekit.results.comparison import best_depths
from probekit.results.tables import caption, depth_table, footnotes, summarise


def main() -> None:
    """Write the table and the figure."""
    records = load_records([RESULTS / "depth_smollm2.jsonl"])
    best = best_depths(records)
    write(
        "depth_smollm2",
        [
            f"# CoNLL-2003 NER by depth, {records[0].model}",
            depth_table(records, style="markdown", best=best),
            footnotes(records, "markdown", best),
            caption(summarise(records)),
        ],
    )
    save_figure(plot_depth(records), RESULTS / "depth_smollm2.png")


if __name__ == "__main__":
    main()
