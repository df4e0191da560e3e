"""NER on CoNLL-2003: every head with a linear decoder and with a CRF, few-shot and in full.

128 shots, 50 epochs, 5 seeds; all of train, 5 epochs, 1 seed. A head's learning rate is the best
of ``RATES``, chosen once by the mean dev score of seeds 0 and 1 (128 shots, linear decoder), so
that test is what to read. Finished runs are skipped: the script can be stopped and resumed.

    probekit extract MODEL conll --data DATA --split train,dev,test
    python analyses/heads_conll.py MODEL --workers 2
"""

from collections.abc import Sequence
from dataclasses import replace

from shared import RESULTS, arguments, best_rate, of_head, runner, section, write

from probekit import Record, TrainSpec, plot_weights, product, save_figure

NAME = "heads_conll"
SHOTS = 128
SEEDS = range(5)
SEARCH_SEEDS = range(2)
DECODERS = ("linear", "crf")
LIGHT, HEAVY = (2e-3,), (2e-4, 1e-3)
RATES = {
    "last": LIGHT,
    "mean": LIGHT,
    "p32": LIGHT,
    "scalar-mix": LIGHT,
    "attention-fusion": LIGHT,
    "concat": HEAVY,
    "concat-ffn": (*HEAVY, *LIGHT),
    "dwatt": HEAVY,
    "extra-layers": HEAVY,
    "depth-lstm:hidden=256": (1e-3,),
    "laya": HEAVY,
}
"""Rates that are tried. The light heads' own is the best of four in ``fewshot_conll.py``; the LSTM
is narrow, and its rate not searched, because it is the slowest by far."""


def main() -> None:
    """Train what is missing, then write the tables and the figure."""
    args = arguments(__doc__)
    run = runner(RESULTS / f"{NAME}.jsonl", args)
    base = TrainSpec(model=args.model, task="conll", head="last", epochs=50, evals=5)
    few = replace(base, shots=SHOTS)
    searched = run(
        [
            replace(few, head=head, lr=rate, seed=seed, decoder="linear")
            for head, rates in RATES.items()
            if len(rates) > 1
            for rate in rates
            for seed in SEARCH_SEEDS
        ]
    )
    own = [replace(few, head=head, lr=chosen(head, searched)) for head in RATES]
    shot = run([s for one in own for s in product(one, {"decoder": DECODERS, "seed": SEEDS})])
    full = run([replace(one, shots=None, epochs=5, decoder="linear") for one in own])
    parts = [f"# NER on CoNLL-2003, every head, {shot[0].model}"]
    for decoder in DECODERS:
        of_decoder = [record for record in shot if record.decoder == decoder]
        parts.append(section(f"{SHOTS} shots, decoder {decoder}", of_decoder))
    write(NAME, [*parts, section("All of train, 5 epochs, decoder linear", full)])
    linear = [record for record in shot if record.decoder == "linear"]
    save_figure(plot_weights(linear), RESULTS / f"{NAME}_weights.png")


def chosen(head: str, searched: Sequence[Record]) -> float:
    """Return the learning rate of a head that is best on dev; the smallest of equals."""
    rates = RATES[head]
    return rates[0] if len(rates) == 1 else best_rate(of_head(searched, head), rates)


if __name__ == "__main__":
    main()
