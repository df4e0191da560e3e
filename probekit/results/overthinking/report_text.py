"""What the two measurements say, as text for a terminal."""

from collections.abc import Sequence
from itertools import groupby

from probekit.metrics import scale_of
from probekit.results.overthinking.chosen_depth import ChosenDepth
from probekit.results.overthinking.depth_curves import CurveReport
from probekit.results.overthinking.early_exit import EarlyExit, ExitPoint
from probekit.results.overthinking.estimates import Estimate
from probekit.results.overthinking.examples import ShownExample, ShownRow
from probekit.results.overthinking.exit_rules import TEXTS
from probekit.results.overthinking.measure import Overthinking
from probekit.results.overthinking.shares import Share
from probekit.results.summaries.text_layout import Column, text_table
from probekit.results.summaries.wording import metric_text, model_text

_LEAST_P = 1e-16

_LEGEND = (
    "expected: by the last depth's own probabilities, calibrated: right as often as it says that "
    "the\nclasses are which the earlier depths name; excess: beyond that; * surely more, corrected "
    "for the\ndepths (Holm); layers wasted: per wasteful row, no share;"
)


def overthinking_text(found: Sequence[Overthinking]) -> str:
    """Return the tables of shares, what follows from them, and the examples."""
    return "\n".join(map(_shares_text, found))


def _shares_text(found: Overthinking) -> str:
    names = ["right at the last depth", *(share.name for share in found.shares)]
    shares = [found.right.text(100), *map(_own, found.shares)]
    columns = [
        Column("", names, words=True),
        Column(f"% of {found.unit}", shares),
        Column("expected", ["", *(_plain(share.expected) for share in found.shares)]),
        Column("excess", ["", *(_signed(share.excess) for share in found.shares)]),
    ]
    examples = [_example_text(example) for example in found.examples]
    lines = [_title_text(found), "", text_table(columns), *_part_texts(found), ""]
    lines += [_depths_table(found), *_chosen_texts(found.chosen), "", _LEGEND]
    lines += [_intervals_text(found), *examples]
    return "\n".join(lines) + "\n"


def _intervals_text(found: CurveReport) -> str:
    return f"in brackets: 95 % bootstrap intervals over {found.drawn.text}"


def _depths_table(found: Overthinking) -> str:
    """Return a line per depth: what it has right, and where the last one is wrong."""
    by_depth = found.by_depth
    earlier = by_depth.earlier
    columns = [
        Column("depth", [f"{depth}" for depth in by_depth.depths]),
        Column(f"% of {found.unit} right", [one.text(100) for one in by_depth.right]),
        Column("% right where the last is wrong", [*(one.right.text(100) for one in earlier), ""]),
        Column("expected", [*(_plain(one.expected) for one in earlier), ""]),
        Column("excess", [*(_signed(one.excess) + "*" * one.knows for one in earlier), ""]),
    ]
    gold = (
        f"one draw from the last depth's probabilities is right there in {_plain(by_depth.gold)} %"
    )
    return f"{text_table(columns)}\n{gold}"


def _title_text(found: Overthinking | EarlyExit) -> str:
    """Return what was measured on how much."""
    seeds = "one seed" if found.n_seeds == 1 else f"{found.n_seeds} seeds"
    counts = f"{found.n_sentences:,} sentences, {seeds}"
    return (
        f"{found.name} ({_said(found)}): {counts}, depths {found.depths[0]} to {found.depths[-1]}"
    )


def _said(found: CurveReport) -> str:
    return ", ".join([model_text(found.model), found.task, found.label, found.split])


def _own(share: Share) -> str:
    return share.share.text(1.0 if share.name == "layers wasted" else 100.0)


def _plain(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value * 100:z.1f}"


def _signed(estimate: Estimate | None) -> str:
    return "" if estimate is None else estimate.text(100, signed=True)


def _part_texts(found: Overthinking) -> list[str]:
    """Return what wasteful and destructive rows are shares of."""
    wasteful, destructive = (share.share.value for share in found.shares[:2])
    right = found.right.value
    lines = []
    if right > 0:
        share = wasteful / right
        lines.append(f"{share:.0%} of what the last depth has right was right at an earlier one")
    if right < 1:
        share = destructive / (1 - right)
        lines.append(f"{share:.0%} of what the last depth has wrong was right at an earlier one")
    return lines


def _chosen_texts(chosen: ChosenDepth) -> list[str]:
    depths = " and ".join(map(str, chosen.depths))
    how = f"chosen on {chosen.chosen_on}"
    if chosen.chosen_on == "halves":
        how = "each half of the sentences has the depth that the other half chose"
    return [
        f"one earlier depth in place of the last: {depths} ({how})",
        f"  repairs {chosen.repairs.text(100)} %, breaks {chosen.breaks.text(100)} %, net "
        f"{chosen.net.text(100, signed=True)} %; {_significance(chosen)}",
        f"  repairs expected by the last depth's own probabilities {_plain(chosen.expected)} %, "
        f"excess {_signed(chosen.excess)} %",
    ]


def _significance(chosen: ChosenDepth) -> str:
    """Return McNemar's p, or that of the bootstrap where sentences come in groups."""
    if not chosen.p:
        return f"p = {_p_text(chosen.net.p)} (bootstrap)"
    low, high = (_p_text(one) for one in (min(chosen.p), max(chosen.p)))
    p = low if low == high else f"{low} to {high} over the seeds"
    return f"McNemar's exact p = {p}"


def _p_text(p: float) -> str:
    return f"{p:.2g}" if p >= _LEAST_P else f"below {_LEAST_P:g}"


def _example_text(example: ShownExample) -> str:
    pair = [f"  {example.text_pair}"] if example.text_pair is not None else []
    head = [f"\n{example.id} (seed {example.seed})", f"  {example.text}", *pair]
    told = example.told or example.rows[:1]
    return "\n".join([*head, *(_row_text(example, row) for row in told)])


def _row_text(example: ShownExample, row: ShownRow) -> str:
    """Return what is predicted from depth to depth; equal neighbours are told together."""
    # Predictions A A B of the depths 0, 1, 2 with 0.6, 0.7 and 0.9: "0-1 A (0.60-0.70), 2 B (0.90)"
    places = groupby(range(len(row.predicted)), key=lambda place: row.predicted[place])
    told = [_run_text(example.depths, row, list(run)) for _, run in places]
    name = "" if row.word is None else f"{row.word}: "
    return f"  {name}gold {row.gold}, {row.kind}: {', '.join(told)}"


def _run_text(depths: Sequence[int], row: ShownRow, places: Sequence[int]) -> str:
    first, last = depths[places[0]], depths[places[-1]]
    among = str(first) if first == last else f"{first}-{last}"
    known = [p for p in (row.probability[place] for place in places) if p is not None]
    low_high = [f"{one:.2f}" for one in dict.fromkeys((min(known), max(known)))] if known else ["?"]
    return f"{among} {row.predicted[places[0]]} ({'-'.join(low_high)})"


def exit_text(found: Sequence[EarlyExit]) -> str:
    """Return a table of rules per curve, and what was chosen how."""
    return "\n".join(_exit_text(one) for one in found)


def _exit_text(found: EarlyExit) -> str:
    scale = scale_of(found.metric)
    points = found.points
    columns = [
        Column("rule", [TEXTS[point.rule] for point in points], words=True),
        Column("leaves at", [_thresholds(point) for point in points], words=True),
        Column(f"{found.split} {metric_text(found.metric)}",
               [point.score.text(scale.factor) for point in points]),
        Column("lost", [point.loss.text(scale.factor, signed=True) for point in points]),
        Column("mean layers", [point.layers.text(decimals=2) for point in points]),
        Column("% saved", [point.saved.text(100) for point in points]),
    ]  # fmt: skip
    how = (
        f"each half of {found.split} has the thresholds of the other"
        if found.chosen_on == "halves"
        else f"thresholds are chosen on {found.chosen_on}"
    )
    note = (
        f"{how}: the fewest layers that lose at most {found.tolerance * scale.factor:g} against "
        f"the whole model there; {_intervals_text(found)}"
    )
    return f"{_title_text(found)}\n\n{text_table(columns)}\n{note}\n"


def _thresholds(point: ExitPoint) -> str:
    shown = point.thresholds
    return ", ".join(shown) if len(shown) < 4 else f"{shown[0]}, ... ({len(shown)})"
