"""Score against the share of the training split that was read, one curve per head."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.amount import draw_amounts
from probekit.plots.axis import fraction_axis
from probekit.results.record import Record
from probekit.results.summaries.scored import Scored, shown


def plot_fraction(records: Sequence[Record], split: Scored | None = None) -> Figure:
    """Draw the score against the fraction (logarithmic), with 95 % intervals over seeds.

    Scores are the best ones on dev, or those of the same checkpoints on test.

    Args:
        records: records; those that were not trained on a fraction are left out.
        split: whose scores; None is test where all the records have one, else dev.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two fractions, or
            a point would average over more than seeds.
    """
    records = [one for one in records if one.fraction is not None]
    records, split = shown(records, split)
    if len({record.fraction for record in records}) < 2:
        raise RecordError(
            "a curve over fractions needs records of at least two; run `probekit sweep` with "
            "--fraction 0.01,0.1,1 first."
        )
    return draw_amounts(records, "fraction", fraction_axis, split)
