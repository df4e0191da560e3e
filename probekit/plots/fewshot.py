"""Score against the number of shots, one curve per head (DWAtt, Fig. 3)."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from probekit.errors import RecordError
from probekit.plots.amount import draw_amounts
from probekit.plots.axis import shots_axis
from probekit.results.record import Record
from probekit.results.summaries.scored import Scored, shown


def plot_fewshot(records: Sequence[Record], split: Scored | None = None) -> Figure:
    """Draw the score against shots (logarithmic), with 95 % intervals over seeds.

    Scores are the best ones on dev, or those of the same checkpoints on test.

    Args:
        records: records; those that are not few-shot are left out.
        split: whose scores; None is test where all the records have one, else dev.

    Raises:
        UnknownNameError: there is no such split.
        RecordError: no record has such scores, there are fewer than two numbers of shots, or
            a point would average over more than seeds.
    """
    records = [one for one in records if one.shots is not None]
    records, split = shown(records, split)
    if len({record.shots for record in records}) < 2:
        raise RecordError(
            "a few-shot curve needs records of at least two numbers of shots; run "
            "`probekit sweep` with --shots 8,16,32,64,128 first."
        )
    return draw_amounts(records, "shots", shots_axis, split)
