"""Select records by the values of options, and each head at its best ones on dev.

The dev score that chose is too good to be reported, so the report is the score on test.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from probekit.base.registry import choose
from probekit.errors import OptionError, RecordError
from probekit.metrics import scale_of
from probekit.results.record import Record
from probekit.results.summaries import grouping, wording
from probekit.results.summaries.diagnosis import MARK
from probekit.results.summaries.interval import interval
from probekit.tasks.user_files import HASH

_BESIDE = ("seed", "trial", "left_out", "ablated")
_NAMES = dict.fromkeys((*wording.OPTIONS, *_BESIDE))
_PIECE = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")  # up to a comma that is not inside quotes
_KEY_DIGITS = 8
_SAID = {"fit": "fitter", "batch": "batch_size"}  # as figures and tables say them
_BEGIN = re.compile(r"\s*[\w.]+=")

_SERVING = {
    "trial": "trials of a search that was not finished; run it again, or choose them with --where "
    "trial=yes",
    "left_out": "from an ablation that was not finished; run it again, or choose them with --where "
    "left_out=LAYER",
}
"""Fields that mark runs which serve others, and what it says where all records are of such runs."""


def matching(records: Sequence[Record], conditions: Sequence[str]) -> list[Record]:
    """Return the records that meet every condition.

    Runs that serve others are left out unless a condition asks for them: trials of a search
    (``trial=yes``), or runs without a layer (``left_out=3``).

    Args:
        records: any records.
        conditions: each ``name=value`` or ``name=value,value``, or several of these with commas
            between them; a name is an option, or one of the settings in ``options``
            (``decoder.hidden``). A value is written as tables print it (``all`` or ``none`` for an
            option that was not set), a number in any notation, a model by its name or the last
            part of it, an entry by the digits that ``probekit cache ls`` prints. A value that holds
            a comma stands alone or in quotes.

    Raises:
        OptionError: a condition is malformed.
        UnknownNameError: a name is no option of a record.
        RecordError: no record is left; the message lists the values that occur.
    """
    separate = [condition for text in conditions for condition in _separate(text)]
    kept = list(records)
    for name, why in _SERVING.items():
        if kept and not any(condition.startswith(f"{name}=") for condition in separate):
            kept = [record for record in kept if getattr(record, name) in (None, False)]
            if not kept:
                raise RecordError(f"all records are {why}.")
    for condition in separate:
        name, equals, values = condition.partition("=")
        if not equals or not values:
            raise OptionError(f"condition {condition!r}: write name=value, such as shots=128.")
        name = _SAID.get(name, name)
        settings = dict.fromkeys(setting for record in records for setting in record.options)
        choose("option", name, {**_NAMES, **settings})
        left = _with_values(kept, name, values)
        if kept and not left:
            raise RecordError(f"no records with {condition}; {name} is {_occurring(kept, name)}.")
        kept = left
    return kept


def condition_names(conditions: Sequence[str]) -> set[str]:
    """Return the options that some conditions are about."""
    return {
        condition.partition("=")[0].strip() for text in conditions for condition in _separate(text)
    }


def _separate(text: str) -> list[str]:
    """Return the conditions in a text: after a comma, a name with ``=`` begins another one."""
    conditions: list[str] = []
    for piece in _PIECE.findall(text):
        if conditions and not _BEGIN.match(piece):
            conditions[-1] += f",{piece}"
        else:
            conditions.append(piece.strip())
    return conditions or [text]


def _with_values(records: Sequence[Record], name: str, values: str) -> list[Record]:
    """Return the records with one of some values; all of the text may be a value with commas."""
    whole = [record for record in records if _is(record, name, values.strip())]
    if whole:
        return whole
    quoted = [value.strip() for value in _PIECE.findall(values)]
    wanted = [v[1:-1] if len(v) > 1 and v[0] == v[-1] in "'\"" else v for v in quoted]
    if not all(any(_is(r, name, value) for r in records) for value in wanted):
        return []  # a misspelt one must not pass unnoticed
    return [r for r in records if any(_is(r, name, value) for value in wanted)]


def _is(record: Record, name: str, wanted: str) -> bool:
    value = _value(record, name)
    if name == "entry":
        return wanted in (value, wording.value_text(name, value)) or (
            len(wanted) >= _KEY_DIGITS and record.entry.startswith(wanted)
        )
    if value is None:
        return wanted.lower() in ("all", "none", wording.value_text(name, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return wanted == wording.value_text(name, value) or float(wanted) == value
        except ValueError:
            return False
    texts = [str(value), wording.value_text(name, value)]
    if name == "model":
        texts.append(wording.model_text(value))
    if name == "task":  # of the user's own, a hash of the text follows its name
        texts.append(HASH.sub("", value))
    return wanted in texts


def _value(record: Record, name: str) -> Any:
    return grouping.option_of(record, name) if name in _NAMES else record.options.get(name)


def _occurring(records: Sequence[Record], name: str) -> str:
    if name not in wording.OPTIONS:
        occurring = {_value(record, name) for record in records}
        values = sorted(occurring, key=lambda value: (value is not None, value))
        return " or ".join(
            "none" if value is None else wording.value_text(name, value) for value in values
        )
    return " or ".join(
        wording.listed_text(name, value) for (value,) in grouping.grouped(records, [name])
    )


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
    among: dict[grouping.Key, int]
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
            f"({wording.range_text(several)} settings each)"
        )
        if on_dev:
            return [said, f"{MARK} {CHOSE}, so they are optimistic"]
        return [f"{said}; report test, because dev is optimistic"]

    def chose(self, key: grouping.Key) -> bool:
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
            f"--best-on {on}: options can only be chosen on dev, which leaves test to report; "
            "write --best-on dev."
        )
    compared = [name for name in wording.OPTIONS if name not in TUNED]
    best: list[Record] = []
    among: dict[grouping.Key, int] = {}
    by: dict[str, None] = {}
    for group in grouping.grouped(records, compared).values():
        settings = grouping.grouped(group, tuple(wording.OPTIONS))
        names = grouping.names_by_key(group)
        named = [(names[members[0].key], members) for members in settings.values()]
        grouping.check_same_seeds(named, "--best-on dev compares means over the same seeds")
        means = {
            key: interval(r.eval_score for r in members).mean for key, members in settings.items()
        }
        chosen = scale_of(group[0].metric).best(means)
        best += settings[chosen]
        among[chosen] = len(settings)
        by |= dict.fromkeys(name for name in grouping.varying(group) if name != "layers")
    return BestOptions(best, among, list(by))
