"""NER on CoNLL-2003 in several models: ten heads, with a linear decoder and with a CRF.

128 shots, 50 epochs, 5 seeds, as in ``heads_conll.py``, whose records it shares. A head has one
rate in all models: 2e-3 for the light heads, else what ``heads_conll.py`` and ``extra_layers.py``
chose on dev or one within 0.3 points of it; that of ``depth-lstm`` was not searched. The light
heads also read standardised rows, which very large activations call for. Dev chooses the checkpoint
and test is what to read. Finished runs are skipped: the script can be stopped and resumed. The
tables hold what is recorded, so that ``--head`` trains some heads and leaves the others as they are
(a dash: not trained).

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/models_conll.py MODEL MODEL ... --workers 2
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import heads_conll
from shared import (
    LIGHT,
    RESULTS,
    argument_parser,
    cell,
    interval_text,
    markdown,
    of_head,
    paired,
    runner,
    section,
    write,
)

from probekit import Record, TrainSpec, load_records, plot_weights, product, save_figure

NAME = "models_conll"
RECORDS = RESULTS / f"{heads_conll.NAME}.jsonl"
SHOTS, EPOCHS, SEEDS = heads_conll.SHOTS, 50, heads_conll.SEEDS
RATES = {
    **dict.fromkeys(LIGHT, 2e-3),
    "concat-ffn": 2e-3,
    "concat": 1e-3,
    "dwatt": 1e-3,
    "depth-lstm:hidden=256": 1e-3,
    "extra-layers": 1e-3,
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "linear": {"decoder": "linear"},
    "linear, standardised": {"decoder": "linear", "normalize": "standardize"},
    "CRF": {"decoder": "crf"},
}
"""Columns, and their options."""

DEEPER = "extra-layers"
"""What the DWAtt paper holds layer fusion against: new layers on top."""

INTRODUCTION = f"""\
Test span F1 (%), mean ± half width of the 95 % interval over {len(SEEDS)} seeds; {SHOTS} shots,
{EPOCHS} epochs. A causal model has seen nothing to the right of a word, so its scores are not to be
compared with an encoder's. Differences are paired over seeds, in points. A dash:
not trained, or nothing to compare with."""


def main() -> None:
    """Train what is missing, then write the tables and the figure."""
    parser = argument_parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--head", action="append", choices=list(RATES), help="default: all of them")
    args = parser.parse_args()
    run = runner(RECORDS, args)
    heads = args.head or RATES
    trained = [run([spec for h in heads for spec in plan(m, h)]) for m in args.models]
    found = [recorded(records[0].model) for records in trained]
    write(NAME, [f"# {__doc__.partition(':')[0]}", INTRODUCTION, *tables(found)])
    linear = [record for records in found for record in of_setting(records, "linear")]
    save_figure(plot_weights(linear), RESULTS / f"{NAME}_weights.png")


def plan(model: str, head: str) -> list[TrainSpec]:
    """Return the runs of a model and a head."""
    base = TrainSpec(
        model=model, task="conll", head=head, shots=SHOTS, epochs=EPOCHS, evals=5, lr=RATES[head]
    )
    return [
        spec
        for options in SETTINGS.values()
        if head in LIGHT or "normalize" not in options
        for spec in product(replace(base, **options), {"seed": SEEDS})
    ]


def recorded(model: str) -> list[Record]:
    """Return the records of a model at the heads' rates, of this script and `heads_conll`."""
    rates = {head.partition(":")[0]: rate for head, rate in RATES.items()}
    return [
        record
        for record in load_records(RECORDS)
        if record.model == model
        and record.lr == rates.get(record.head)
        and (record.shots, record.epochs) == (SHOTS, EPOCHS)
        and record.seed in SEEDS
    ]


def of_setting(records: Sequence[Record], name: str) -> list[Record]:
    """Return the records of one column."""
    options = {"normalize": "none", **SETTINGS[name]}
    return [r for r in records if all(getattr(r, key) == value for key, value in options.items())]


def tables(found: Sequence[Sequence[Record]]) -> list[str]:
    """Return one table of test scores per model, and behind them all columns."""
    overviews, sections = [], []
    for records in found:
        columns = {name: of_setting(records, name) for name in SETTINGS}
        by_head = {
            head: {name: of_head(column, head) for name, column in columns.items()}
            for head in RATES
        }
        lines = [[f"`{head}`", *map(cell, own.values())] for head, own in by_head.items()]
        overview = markdown(["head", *columns], lines)
        overviews.append(f"## {records[0].model}\n\n{overview}\n{differences(by_head)}")
        sections += [
            section(f"{records[0].model}, {name}", column)
            for name, column in columns.items()
            if column
        ]
    return overviews + sections


def differences(by_head: Mapping[str, Mapping[str, Sequence[Record]]]) -> str:
    """Return what standardised rows and a CRF add to each head, and its lead over new layers.

    Args:
        by_head: the records of each head, by column.
    """
    deeper = by_head[DEEPER]
    lines = []
    for head, own in by_head.items():
        pairs = (
            (own["linear, standardised"], own["linear"]),
            (own["CRF"], own["linear"]),
            (own["linear"], deeper["linear"]),
            (own["CRF"], deeper["CRF"]),
        )
        lines.append([f"`{head}`", *(difference(one, two) for one, two in pairs)])
    lead = f"lead over `{DEEPER}`"
    header = ["head", "standardised - raw", "CRF - linear", f"{lead}, linear", f"{lead}, CRF"]
    return markdown(header, lines)


def difference(one: Sequence[Record], two: Sequence[Record]) -> str:
    """Return a paired difference; a dash for sides without the same seeds, or that are one."""
    seeds = [{record.seed for record in side} for side in (one, two)]
    if not seeds[0] or seeds[0] != seeds[1] or one is two:
        return "-"
    return interval_text(paired(one, two), sign=True)


if __name__ == "__main__":
    main()
