"""How often the interval of recall at 1 % false positives holds the truth, in simulated texts.

Scores of the negatives are normal around 0, of the positives around a distance. The true recall is
that of infinitely many texts. Intervals are those that tables print: half the width between the
percentiles of a bootstrap over texts, on both sides of the score.

    python analyses/alarm_coverage.py            # ten minutes of one core, no model, no data
"""

import numpy as np
from scipy.special import ndtr, ndtri
from shared import argument_parser, markdown, write

from probekit.metrics import Gold, RecallAtFPR
from probekit.results.comparison.resampling import Bootstrap, Groups

NAME = "alarm_coverage"
SIZES = ((200, 100), (500, 300), (1000, 1000), (3000, 1000))
DISTANCES = (1.0, 2.0, 3.0)
EXPERIMENTS = 400

INTRODUCTION = f"""\
Share of {EXPERIMENTS} simulated test splits whose 95 % interval of recall at 1 % false positives
holds the truth, in percent (standard error 1.1). *Width* and *bias* are means, in points."""


def interval(random: np.random.Generator, sizes: tuple[int, int], distance: float) -> np.ndarray:
    """Return a score, and both ends of its interval."""
    labels = np.repeat([0, 1], sizes)
    margins = random.normal(labels * distance)
    gold = Gold(ids=labels, offsets=np.arange(len(labels) + 1), names=("no", "yes"))
    scores, groups = np.stack([-margins, margins], 1), Groups(len(labels))
    resampler = RecallAtFPR(gold).resampler(scores)
    bootstrap = Bootstrap(samples=2_000)
    (found,) = bootstrap.estimates(groups, lambda counts: resampler(counts)[:, None])
    half = (found.high - found.low) / 2
    return np.array([found.value, found.value - half, found.value + half])


def main() -> None:
    """Simulate, and write the table."""
    argument_parser(__doc__).parse_args()
    lines = []
    for sizes in SIZES:
        for distance in DISTANCES:
            truth = float(ndtr(distance + ndtri(RecallAtFPR.most)))
            random = np.random.default_rng([*sizes, int(distance)])
            value, low, high = np.array(
                [interval(random, sizes, distance) for _ in range(EXPERIMENTS)]
            ).T
            held = ((low <= truth) & (truth <= high)).mean()
            shares = (truth, held, (high - low).mean(), (value - truth).mean())
            lines.append([*map(str, sizes), *(f"{100 * share:.1f}" for share in shares)])
    header = ("negatives", "positives", "true recall", "held", "width", "bias")
    write(NAME, [INTRODUCTION, markdown(header, lines, words=0)])


if __name__ == "__main__":
    main()
