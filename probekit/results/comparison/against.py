"""The rows of a table against a reference row, with a verdict for each that holds for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probekit.base.markup import html_view
from probekit.results.comparison.evidence import score_on
from probekit.results.comparison.judging import SAMPLES, Judged, judge, method_text
from probekit.results.comparison.pairwise import HIGHER, LOWER, pair_columns
from probekit.results.comparison.references import reference_text, settings, with_reference
from probekit.results.record import Record
from probekit.results.summaries.grouping import Key
from probekit.results.summaries.scored import reported_split
from probekit.results.summaries.typeset import html_columns


@dataclass(frozen=True)
class Verdicts:
    """What is known of the rows of a table against their references.

    Attributes:
        split: the split that they were compared on.
        rows: by the options of a row; references, and rows without one, are not in it.
        lines: what the marks mean, and how it was found.
    """

    split: str
    rows: Mapping[Key, Judged]
    lines: Sequence[str]

    def _repr_html_(self) -> str:
        """Return a row for every setting with its reference."""
        table = html_columns(pair_columns(list(self.rows.values())))
        return html_view(table, notes=self.lines)


def verdicts(
    records: Sequence[Record],
    against: str | None = None,
    *,
    split: str | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Verdicts:
    """Compare every setting with its reference, all of them as one family.

    Args:
        records: those of a table.
        against: the reference: a head, or conditions such as ``head=mean,normalize=none``; None is
            ``last``.
        split: ``test`` or ``dev``; unset it is test where all records have a score there.
        samples: bootstrap samples; of a large family more are drawn.
        seed: of the samples.

    Raises:
        OptionError: a condition is malformed, several references are as near, or too few samples.
        RecordError: nothing meets the condition, or nothing can be compared with what does.
    """
    split = split or reported_split(records)
    scored = [record for record in records if score_on(record, split) is not None]
    runs = settings(scored)
    pairs = with_reference(scored, runs, against)
    found = judge(pairs, split, samples=samples, seed=seed)
    keys = {run.text: key for key, run in runs.items()}
    references = {id(two) for own in pairs.values() for _, two in own}
    without = len(runs) - len(references) - len(found)
    lines = [
        f"{HIGHER} {LOWER} {split} higher or lower than {reference_text(pairs, scored)} (5 %)",
        *method_text(found, samples),
        f"{without} rows have no reference on the same data" * bool(without),
    ]
    return Verdicts(split, {keys[one.a]: one for one in found}, [line for line in lines if line])
