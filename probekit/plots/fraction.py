"""Score against the share of the training split that was read, one curve per head."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.amount import draw_amounts
from probekit.plots.axis import fraction_axis
from probekit.results.record import Record


def plot_fraction(records: Sequence[Record]) -> Figure:
    """Draw the best dev score against the fraction (logarithmic), with 95 % intervals over seeds.

    Args:
        records: records; those that were not trained on a fraction are left out.

    Raises:
        RecordError: fewer than two fractions, or a point would average over more than seeds.
    """
    records = [record for record in records if record.fraction is not None]
    if len({record.fraction for record in records}) < 2:
        raise RecordError(
            "a curve over fractions needs records of at least two; run `probekit sweep` with "
            "--fraction 0.01,0.1,1 first."
        )
    return draw_amounts(records, "fraction", fraction_axis)
