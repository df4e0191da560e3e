"""Tables of records as commands print them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from probekit.base.registry import option
from probekit.cli.output import print_json, show
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.results import Record
    from probekit.results.summaries.scored import Scored
    from probekit.results.summaries.typeset import Table


def print_records(
    records: "Sequence[Record]", *, json: bool = False, by_depth: bool = False
) -> None:
    """Print the scores of records, grouped over seeds, and what they are."""
    from probekit.results.tables import depth_table, score_table

    if json:
        print_json([record.to_json() for record in records])
        return
    show((depth_table if by_depth else score_table)(records).text(), nl=False)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What is asked of a table."""

    split: str | None = option(
        None, "depth, --columns, --verdicts: dev, or test (the default where all have one)."
    )
    columns: str | None = option(None, "A column per value of this option, such as shots.")
    best_on: str | None = option(None, "dev: each head at the options that are best on dev.")
    verdicts: bool = option(False, "Mark rows surely above or below --against (Holm, 5 %).")
    against: str | None = option(
        None,
        "The reference of --verdicts: a head (last), or conditions such as "
        "head=mean,normalize=none.",
    )
    also: tuple[str, ...] | None = option(
        None, "scores: these too, on every split: loss,ece,brier,accuracy, test/loss."
    )


def asked_table(records: "Sequence[Record]", asked: TableOptions) -> "Table":
    """Return a table of scores as it was asked for, the baselines of heads beside them."""
    from probekit.results.comparison import verdicts
    from probekit.results.comparison.runs import references
    from probekit.results.summaries.grouping import beside_heads, rivals, without_baselines
    from probekit.results.summaries.select import best_options
    from probekit.results.tables import pivot, score_table

    named = references(records, asked.against) if asked.against else []
    heads_named = bool(without_baselines(named)) or not named
    # a baseline is a row where it is the reference, and where columns are of an option
    baselines = [*([] if heads_named else named), *(rivals(records) if asked.columns else ())]
    shown: Sequence[Record] = beside_heads(records, baselines)
    best = best_options(shown, asked.best_on) if asked.best_on is not None else None
    shown = best.records if best else shown
    judged = None
    if asked.verdicts or asked.against:
        family = without_baselines(shown) if heads_named else shown
        judged = verdicts(family, asked.against, split=asked.split)
        if best and judged.split == "dev":
            raise OptionError(
                "--best-on dev with verdicts on dev: what was chosen for its dev score is higher "
                "there by chance. Give records with test scores, or leave one of both out."
            )
    if asked.columns is None:
        return score_table(shown, asked.also or (), best=best, judged=judged)
    split = cast("Scored | None", asked.split)
    return pivot(shown, asked.columns, split=split, best=best, judged=judged)
