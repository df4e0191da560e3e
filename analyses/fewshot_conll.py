"""Few-shot NER on CoNLL-2003: seven heads at 8 and 128 shots (DWAtt paper, figure 3).

Once at the published learning rates and once with each head at its own best of
{5e-5, 2e-4, 1e-3, 2e-3}, chosen on dev and reported on test. The published rates (5e-5 and 2e-3)
are among the four, so one sweep serves both tables. Make the records, then the tables:

    probekit extract MODEL conll --data DATA --split train,dev,test
    probekit sweep MODEL conll --head last,mean,p32,scalar-mix,attention-fusion,concat,dwatt \
        --shots 8,128 --epochs 50 --evals 5 --seeds 5 --lr 5e-5,2e-4,1e-3,2e-3 --workers 2 \
        --out analyses/results/fewshot_conll.jsonl
    python analyses/fewshot_conll.py
"""

from collections.abc import Sequence
from pathlib import Path

from probekit import HEADS, Record, load_records, plot_fewshot, save_figure
from probekit.report import caption, summarise, table
from probekit.results.groups import choose_on_dev

RESULTS = Path(__file__).parent / "results"
RECORDS = RESULTS / "fewshot_conll.jsonl"
RATES = (5e-5, 2e-4, 1e-3, 2e-3)


def main() -> None:
    """Write both tables and the figure."""
    records = load_records([RECORDS])
    published = [record for record in records if record.lr == HEADS[record.head].learning_rate]
    best = choose_on_dev([record for record in records if record.lr in RATES], over=("lr",))
    text = "\n\n".join(
        [
            "# Few-shot NER on CoNLL-2003, " + published[0].model,
            section("Published learning rates", published),
            section("Each head at its own best rate of four, chosen on dev", best),
        ]
    )
    (RESULTS / "fewshot_conll.md").write_text(text + "\n", encoding="utf-8")
    save_figure(plot_fewshot(best), RESULTS / "fewshot_conll.png")
    print(text)


def section(title: str, records: Sequence[Record]) -> str:
    """Return a titled table with its caption."""
    rows = summarise(records)
    return f"## {title}\n\n{table(rows, style='markdown')}\n\n{caption(rows)}"


if __name__ == "__main__":
    main()
