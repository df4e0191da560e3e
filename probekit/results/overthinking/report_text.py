"""What the two measurements say, as text for a terminal."""

from collections.abc import Sequence

from probekit.metrics import scale_of
from probekit.results.comparison.resampling import Estimate
from probekit.results.overthinking.early_exit import TEXTS, EarlyExit
from probekit.results.overthinking.measure import ChosenDepth, Overthinking
from probekit.results.summaries.typeset import Column, text_table
from probekit.results.summaries.wording import metric_text, model_text, seeds_text

_LEAST_P = 1e-16

_LEGEND = (
    "expected: the share that the last depth's own calibrated probabilities predict; excess: "
    "measured\nless expected; * a significant excess (Holm over the depths); layers wasted: per "
    "wasteful row,\nnot a share;"
)


def overthinking_text(measured: Sequence[Overthinking]) -> str:
    """Return the tables of shares, and what follows from them."""
    return "\n".join(map(_shares_text, measured))


def _shares_text(measured: Overthinking) -> str:
    kinds = measured.shares
    shares = [share.share.text(1.0 if share.name == "layers wasted" else 100.0) for share in kinds]
    columns = [
        Column("", ["right at the last depth", *(share.name for share in kinds)], words=True),
        Column(f"% of {measured.unit}", [measured.right.text(100), *shares]),
        Column("expected", ["", *(_percent(share.expected) for share in kinds)]),
        Column("excess", ["", *(_signed(share.excess) for share in kinds)]),
    ]
    right = measured.right.value
    wasteful, destructive = (share.share.value for share in kinds[:2])
    parts = [
        f"{share / of:.0%} of the rows that the last depth has {what} were right at an earlier one"
        for share, of, what in ((wasteful, right, "right"), (destructive, 1 - right, "wrong"))
        if of > 0
    ]
    lines = [_title_text(measured), "", text_table(columns), *parts, ""]
    lines += [_depths_table(measured), *_chosen_texts(measured.chosen), "", _LEGEND]
    return "\n".join([*lines, _intervals_text(measured), ""])


def _title_text(measured: Overthinking | EarlyExit) -> str:
    """Return what was measured on how much."""
    what = ", ".join([model_text(measured.model), measured.task, measured.label, measured.split])
    seeds = seeds_text([measured.n_seeds])
    return (
        f"{measured.name} ({what}): {measured.n_sentences:,} sentences, {seeds}, depths "
        f"{measured.depths[0]} to {measured.depths[-1]}"
    )


def _intervals_text(measured: Overthinking | EarlyExit) -> str:
    return f"in brackets: 95 % bootstrap intervals over {measured.drawn.text}"


def _depths_table(measured: Overthinking) -> str:
    """Return a line per depth: what it has right, and where the last one is wrong."""
    by_depth = measured.by_depth
    earlier = by_depth.earlier
    columns = [
        Column("depth", [f"{depth}" for depth in by_depth.depths]),
        Column(f"% of {measured.unit} right", [estimate.text(100) for estimate in by_depth.right]),
        Column(
            "% right where the last is wrong", [*(depth.right.text(100) for depth in earlier), ""]
        ),
        Column("expected", [*(_percent(depth.expected) for depth in earlier), ""]),
        Column("excess", [*(_signed(depth.excess) + "*" * depth.knows for depth in earlier), ""]),
    ]
    gold = _percent(by_depth.gold)
    return (
        f"{text_table(columns)}\na random draw from the last depth's probabilities is right there "
        f"in {gold} %"
    )


def _percent(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value * 100:z.1f}"


def _signed(estimate: Estimate | None) -> str:
    return "" if estimate is None else estimate.text(100, signed=True)


def _chosen_texts(chosen: ChosenDepth) -> list[str]:
    """Return what one earlier depth repairs and breaks, and how sure its net gain is.

    That is McNemar's p, or that of the bootstrap where sentences come in groups.
    """
    depths = " and ".join(map(str, chosen.depths))
    how = f"chosen on {chosen.chosen_on}"
    if chosen.chosen_on == "halves":
        how = "each half of the sentences uses the depth that the other half chose"
    tested = chosen.p or (chosen.net.p,)
    ends = [
        f"{p:.2g}" if p >= _LEAST_P else f"below {_LEAST_P:g}" for p in (min(tested), max(tested))
    ]
    p = ends[0] if ends[0] == ends[1] else f"{' to '.join(ends)} over the seeds"
    significance = f"McNemar's exact p = {p}" if chosen.p else f"p = {p} (bootstrap)"
    return [
        f"one earlier depth in place of the last: {depths} ({how})",
        f"  repairs {chosen.repairs.text(100)} %, breaks {chosen.breaks.text(100)} %, net "
        f"{_signed(chosen.net)} %; {significance}",
        f"  repairs expected by the last depth's own probabilities {_percent(chosen.expected)} %, "
        f"excess {_signed(chosen.excess)} %",
    ]


def exit_text(measured: Sequence[EarlyExit]) -> str:
    """Return a table of rules per curve, and what was chosen how."""
    return "\n".join(map(_exit_text, measured))


def _exit_text(measured: EarlyExit) -> str:
    scale = scale_of(measured.metric)
    points = measured.points
    leaves = [
        ", ".join(said) if len(said) < 4 else f"{said[0]}, ... ({len(said)})"
        for said in (point.thresholds for point in points)
    ]
    columns = [
        Column("rule", [TEXTS[point.rule] for point in points], words=True),
        Column("leaves at", leaves, words=True),
        Column(f"{measured.split} {metric_text(measured.metric)}",
               [point.score.text(scale.factor) for point in points]),
        Column("lost", [point.loss.text(scale.factor, signed=True) for point in points]),
        Column("mean layers", [point.layers.text(decimals=2) for point in points]),
        Column("% saved", [point.saved.text(100) for point in points]),
    ]  # fmt: skip
    how = (
        f"each half of {measured.split} uses the thresholds chosen on the other"
        if measured.chosen_on == "halves"
        else f"thresholds chosen on {measured.chosen_on}"
    )
    note = (
        f"{how}: those with the fewest layers that lose at most "
        f"{measured.tolerance * scale.factor:g} against the whole model there; "
        f"{_intervals_text(measured)}"
    )
    return f"{_title_text(measured)}\n\n{text_table(columns)}\n{note}\n"
