"""What cannot be measured is refused in one line that says what to do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probekit import early_exit, overthinking
from probekit.errors import MissingFileError, OptionError, RecordError, UnknownNameError
from tests.results.overthinking.held import HELD, add, add_depths
from tests.results.samples import make_record

GOLD = np.arange(20) % 2
PROBES = np.stack([1 - GOLD, GOLD, GOLD])
OTHER = tuple(f"other-{n}" for n in range(20))


def records(**options):
    return add_depths(PROBES, GOLD, **options)


def swapped(found, **changes):
    """Put other predictions in the place of those of a record."""
    about, splits = HELD[Path(found.predictions)]
    HELD[Path(found.predictions)] = about, {"dev": replace(splits["dev"], **changes)}


def without(depth, **options):
    return [one for one in records(**options) if one.depth != depth]


def changed(place, **changes):
    """Return records of which one has other predictions."""
    found = records()
    swapped(found[place], **changes)
    return found


def of_values(**options):
    return [make_record(depth=n, metric="spearman", seen={"blocks": 1}, **options) for n in (0, 1)]


def one_seed_short():
    return [one for one in records(seeds=2) if (one.depth, one.seed) != (1, 1)]


UNKNOWN = {"metric": "kappa", "plugins": {"metric": {"path": "gone:Kappa", "package": "gone 2"}}}


def replaced(**changes):
    return [replace(one, **changes) for one in records()]


@pytest.mark.parametrize("measure", [overthinking, early_exit], ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (lambda: [add(GOLD, GOLD)], {}, RecordError, "run `probekit depth MODEL TASK` first"),
        (lambda: records()[2:], {}, RecordError, "last: all probes have depth 2"),
        (lambda: without(2), {}, RecordError, r"the last depth, 2, is missing \(the deepest"),
        (lambda: replaced(predictions=None), {}, RecordError, "were not kept; .* --predictions"),
        (lambda: replaced(predictions="/gone"), {}, MissingFileError, "--predictions"),
        (lambda: replaced(**UNKNOWN), {}, UnknownNameError, r"metric 'kappa'.*not known here"),
        (lambda: changed(0, ids=OTHER), {}, RecordError, "sentence 1 is .* in last, .* 'dev-0'"),
        (
            one_seed_short,
            {},
            RecordError,
            r"last, depth 0 has seeds 0, 1, last, depth 1 has 0: every depth",
        ),
        (lambda: changed(0, predicted=GOLD), {}, RecordError, "score 1 on dev, its record says 0"),
        (records, {"split": "train"}, UnknownNameError, "dev"),
        (records, {"split": "test"}, RecordError, "no predictions for test, only for dev"),
        (
            of_values,
            {},
            RecordError,
            "this needs predictions of classes, and spearman scores values",
        ),
        (lambda: replaced(metric="perplexity"), {}, RecordError, "perplexity scores losses"),
        (records, {"samples": 10}, OptionError, "samples=10"),
        (lambda: records(confidence=None), {}, RecordError, "without probabilities .* train aga"),
    ],
)
def test_what_cannot_be_measured(measure, make, options, error, message):
    with pytest.raises(error, match=message):
        measure(make(), **options)


def test_messages_name_the_task_where_there_are_several():
    with pytest.raises(
        RecordError, match=r"last \(org/tiny-model, conll, ner\): this needs predictions"
    ):
        early_exit(of_values(head="last"))
    two = [*records(), *(replace(one, task="other") for one in records()[:1])]
    with pytest.raises(RecordError, match=r"last \(org/tiny-model, other, label\): all probes"):
        early_exit(two)
