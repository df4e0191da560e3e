"""Default learning rates of the heads: one grid for all of them, on three models.

Heads are trained by steps at every rate of a grid with 8 shots, light ones with 32 too, over two
seeds that no table reports. What a rate costs is the points of dev by which it lies below the
head's best rate on the same subject; the default is the rate that costs least on average, rounded
(of `dwatt` the one below it, at which no single run fails).
Trials of ``--lr search`` with 8 and 128 shots count too: they try the same rates of a head
until the best lies inside. Beside them in the records are five more seeds of `dwatt` at 1e-3 and
3e-3. Finished runs are skipped, so the script can be stopped and resumed.

    probekit extract MODEL conll --data DATA --split train,dev
    probekit extract MODEL atis --data DATA --split train,dev
    python analyses/default_rates.py MODEL:TASK[:LABEL] ... --workers 2
"""

from collections.abc import Iterable, Mapping
from statistics import fmean

from shared import LIGHT, RESULTS, argument_parser, markdown, runner, subject, write

from probekit import Record, load_records, product
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.sweeps.fitting import default_rate

STEEP = (1e-3, 2e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1)
FLAT = (5e-5, 1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2)
LARGE = ("concat", "dwatt", "laya")
PLANS: Mapping[str, Mapping[str, Iterable[object]]] = {
    "light": {"head": LIGHT, "decoder": ["linear"], "lr": STEEP, "shots": [8, 32]},
    "deep": {"head": ["mean", "concat-ffn"], "decoder": ["mlp"], "lr": FLAT, "shots": [8, 32]},
    "large": {"head": LARGE, "decoder": ["linear"], "lr": FLAT, "shots": [8]},
}
"""Heads without maps of their own, hidden layers in the decoder, and heads with maps."""

SEEDS = (1000, 1001)
STEPS: Mapping[str, Iterable[object]] = {
    "fit": ["adam"],
    "evals": [5],
    "select": ["dev"],
    "seed": SEEDS,
}

Subject = tuple[str, str, int | None]
Scores = Mapping[Subject, Mapping[float, float]]


def main() -> None:
    """Train what is missing, then write the table."""
    parser = argument_parser(__doc__)
    parser.add_argument("subjects", nargs="+", type=subject, metavar="MODEL:TASK[:LABEL]")
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=list(PLANS))
    args = parser.parse_args()
    file = RESULTS / "default_rates.jsonl"
    run = runner(file, args)
    for base in args.subjects:
        for name in args.plans:
            run(product(base, {**PLANS[name], **STEPS}))
    tabulate(record for record in load_records(file) if record.seed in SEEDS)


def tabulate(records: Iterable[Record]) -> None:
    """Write what every rate of every head costs."""
    by_head: dict[tuple[str, str], dict[Subject, dict[float, list[float]]]] = {}
    for record in records:
        assert record.lr is not None
        where = (record.model, record.task, record.shots)
        by_rate = by_head.setdefault((record.head, record.decoder), {}).setdefault(where, {})
        by_rate.setdefault(record.lr, []).append(100 * record.eval_score)
    means = {
        head: {
            where: {rate: fmean(scores) for rate, scores in by_rate.items()}
            for where, by_rate in found.items()
        }
        for head, found in by_head.items()
    }
    subjects = sorted({where for found in means.values() for where in found}, key=str)
    names = ", ".join(f"{model} on {task} with {shots} shots" for model, task, shots in subjects)
    rates = sorted({*STEEP, *FLAT})
    write(
        "default_rates",
        [
            "# What a learning rate costs",
            f"Points of dev below the head's best rate, mean over {len(subjects)} subjects "
            f"({names}) and {len(SEEDS)} seeds, where the rate was tried. The cheapest is in bold.",
            markdown(
                ["head", "decoder", "default", *(f"{rate:g}" for rate in rates)],
                [line(*which, found, rates) for which, found in means.items()],
                words=2,
            ),
        ],
    )


def line(head: str, decoder: str, found: Scores, rates: Iterable[float]) -> list[str]:
    """Return the mean cost of every rate of a head; a dash where it was not tried."""
    costs: dict[float, list[float]] = {}
    for own in found.values():
        for rate, score in own.items():
            costs.setdefault(rate, []).append(max(own.values()) - score)
    mean = {rate: fmean(values) for rate, values in costs.items()}
    cells = (cell(mean[rate], min(mean.values())) if rate in mean else "-" for rate in rates)
    default = default_rate(HEADS[head](), DECODERS[decoder]())
    return [f"`{head}`", f"`{decoder}`", f"{default:g}", *cells]


def cell(cost: float, least: float) -> str:
    """Return a cost, in bold if it is the least."""
    return f"**{cost:.1f}**" if cost == least else f"{cost:.1f}"


if __name__ == "__main__":
    main()
