"""Each head at its best options: of several settings on the same data, the one that is best on dev.

The score that chose is too good where it is reported, so the report is the score on test.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from probekit.errors import OptionError, RecordError
from probekit.metrics import scale_of
from probekit.results.record import Record
from probekit.results.summaries.diagnosis import MARK
from probekit.results.summaries.grouping import Key, grouped, names_by_key, varying
from probekit.results.summaries.interval import interval
from probekit.results.summaries.wording import OPTIONS, range_text

TUNED = (
    "normalize", "pooling", "options", "fitter", "select", "l2", "epochs", "evals", "lr", "rates",
    "batch_size", "optimizer", "layers",
)  # fmt: skip
"""Options that are chosen; the others, such as shots, depth and decoder, are what is compared."""

CHOSE = "options chosen on the reported split"
"""The trouble of scores on dev that chose."""


@dataclass(frozen=True)
class BestOptions:
    """What was chosen.

    Attributes:
        records: of the best setting of each head.
        among: settings that each was chosen among, by the options of the best one.
        by: the options in which these differ.
    """

    records: Sequence[Record]
    among: dict[Key, int]
    by: Sequence[str]

    def lines(self, on_dev: bool) -> list[str]:
        """Return what was chosen, and what that does to the scores, as lines under a table.

        Args:
            on_dev: whether dev is the only score that some rows show.
        """
        several = [n for n in self.among.values() if n > 1]
        if not several:
            return ["dev had nothing to choose: each head has one setting"]
        said = (
            f"chosen on dev, by the mean over seeds: {', '.join(self.by)} "
            f"({range_text(several)} settings each)"
        )
        if on_dev:
            return [said, f"{MARK} {CHOSE}, which makes them too good"]
        return [f"{said}; test is the report, dev is too good"]

    def chose(self, key: Key) -> bool:
        """Say whether a setting was chosen among several."""
        return self.among.get(key, 1) > 1


def best_options(records: Sequence[Record], on: str = "dev") -> BestOptions:
    """Choose the best setting of each head on the same data, by its mean score on dev.

    Args:
        records: any records.
        on: the split that chooses: ``dev`` alone.

    Raises:
        OptionError: another split is to choose.
        RecordError: settings to choose among have other seeds or metrics.
    """
    if on != "dev":
        raise OptionError(
            f"--best-on {on}: options are chosen on dev, so that test is left to report; write "
            "--best-on dev."
        )
    compared = [name for name in OPTIONS if name not in TUNED]
    best: list[Record] = []
    among: dict[Key, int] = {}
    by: dict[str, None] = {}
    for group in grouped(records, compared).values():
        settings = grouped(group, tuple(OPTIONS))
        _check_seeds(settings, group)
        means = {
            key: interval(r.eval_score for r in members).mean for key, members in settings.items()
        }
        chosen = scale_of(group[0].metric).best(means)
        best += settings[chosen]
        among[chosen] = len(settings)
        by |= dict.fromkeys(name for name in varying(group) if name != "layers")
    return BestOptions(best, among, list(by))


def _check_seeds(settings: dict[Key, list[Record]], group: Sequence[Record]) -> None:
    """Refuse to choose among settings of other seeds: their means are over other draws."""
    seeds = {key: sorted(record.seed for record in members) for key, members in settings.items()}
    texts = [", ".join(map(str, numbers)) for numbers in seeds.values()]
    if len(set(texts)) < 2:
        return
    names = names_by_key(group)
    named = [names[members[0].key] for members in settings.values()]
    other = next(index for index, text in enumerate(texts) if text != texts[0])
    raise RecordError(
        f"--best-on dev: {named[0]} has seeds {texts[0]}, {named[other]} has {texts[other]}, and "
        "means over other seeds cannot be compared. Train the missing ones, or choose with --where "
        "seed=0."
    )
