"""The table of two compared runs."""

from probekit.metrics import scale_of
from probekit.results.comparison.outcome import Comparison
from probekit.results.summaries.interval import Interval
from probekit.results.summaries.text_layout import Column, text_table
from probekit.results.summaries.wording import metric_text, value_text


def comparison_table(found: Comparison) -> str:
    """Return the scores of two compared runs, their difference, and what can be said of it."""
    scale = scale_of(found.metric)
    scores = [found.score_a, found.score_b, found.difference]
    columns = [
        Column("", [found.a, found.b, "difference"], words=True),
        Column(
            f"{found.split} {metric_text(found.metric)}",
            [f"{score * scale.factor:.2f}" for score in scores],
        ),
    ]
    low, high = (f"{end * scale.factor:+.2f}" for end in (found.low, found.high))
    lines = [
        f"95 % interval of the difference: {low} to {high}, p = {found.p:.2g} (paired bootstrap, "
        f"{found.samples:,} samples of {found.n_sentences:,} sentences)",
        _seeds_text(found.over_seeds.scaled(scale.factor)),
        *_differing(found),
    ]
    return text_table(columns) + "\n" + "\n".join(lines)


def _differing(found: Comparison) -> list[str]:
    """Return a line with the options in which the runs differ besides their heads, if any."""
    pairs = [
        f"{name.replace('_', ' ')} {value_text(name, one)} and {value_text(name, two)}"
        for name, (one, two) in found.differing.items()
    ]
    return [f"the runs differ in {', '.join(pairs)}"] if pairs else []


def _seeds_text(over: Interval) -> str:
    if over.half is None:
        return "one seed each: how much another seed would change is not known"
    return (
        f"over {over.n} paired seeds: {over.mean:+.2f} ± {over.half:.2f} "
        "(95 % interval, Student's t)"
    )
