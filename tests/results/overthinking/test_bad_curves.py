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


def records(**options):
    return add_depths(PROBES, GOLD, **options)


def swapped(found, **changes):
    """Put other predictions in the place of those of a record."""
    about, splits = HELD[Path(found.predictions)]
    HELD[Path(found.predictions)] = about, {"dev": replace(splits["dev"], **changes)}


@pytest.mark.parametrize("measure", [overthinking, early_exit], ids=lambda one: one.__name__)
class TestBoth:
    def test_no_depth(self, measure):
        with pytest.raises(RecordError, match="run `probekit depth MODEL TASK` first"):
            measure([add(GOLD, GOLD)])

    def test_one_depth(self, measure):
        with pytest.raises(RecordError, match="last: there is a probe of depth 2 alone"):
            measure([one for one in records() if one.depth == 2])

    def test_no_last_depth(self, measure):
        kept = [one for one in records() if one.depth != 2]
        with pytest.raises(RecordError, match=r"the last depth, 2, is missing \(the deepest"):
            measure(kept)

    def test_no_predictions(self, measure):
        found = [replace(one, predictions=None) for one in records()]
        with pytest.raises(RecordError, match=r"were not kept; run the same .* --predictions"):
            measure(found)

    def test_side_file_that_is_gone(self, measure):
        found = records()
        found[0] = replace(found[0], predictions="/nowhere/a.parquet")
        with pytest.raises(MissingFileError, match="--predictions"):
            measure(found)

    def test_a_metric_whose_package_is_not_here(self, measure):
        own = {"plugins": {"metric": {"path": "gone:Kappa", "package": "gone 2"}}}
        found = [replace(one, metric="kappa", **own) for one in records()]
        with pytest.raises(UnknownNameError, match=r"metric 'kappa'.*not known here"):
            measure(found)

    def test_other_sentences(self, measure):
        found = records()
        last = max(found, key=lambda one: one.depth)
        swapped(last, ids=tuple(f"other-{n}" for n in range(20)))
        with pytest.raises(RecordError, match="sentence 1 of last, depth 0, seed 0 is 'dev-0'"):
            measure(found)

    def test_other_seeds(self, measure):
        found = records(seeds=2)
        lost = next(one for one in found if one.depth == 1 and one.seed == 1)
        with pytest.raises(RecordError, match=r"last, depth 1 has seeds \[0\], .* needs the same"):
            measure([one for one in found if one is not lost])

    def test_predictions_of_another_score(self, measure):
        found = records()
        swapped(found[0], predicted=GOLD)
        with pytest.raises(RecordError, match="its predictions score 1 on dev, its record says 0"):
            measure(found)

    def test_no_such_split(self, measure):
        with pytest.raises(UnknownNameError, match="dev"):
            measure(records(), split="train")
        with pytest.raises(RecordError, match="no predictions for test, only for dev"):
            measure(records(), split="test")

    def test_numbers_are_never_right(self, measure):
        found = [
            make_record("last", depth=depth, metric="spearman", seen={"blocks": 1})
            for depth in (0, 1)
        ]
        with pytest.raises(RecordError):
            measure(found)

    def test_too_few_samples(self, measure):
        with pytest.raises(OptionError, match="--samples 10"):
            measure(records(), samples=10)


def test_numbers_are_said_to_be_the_matter():
    found = [make_record(depth=depth, metric="spearman", seen={"blocks": 1}) for depth in (0, 1)]
    with pytest.raises(RecordError, match="labels are classes, and spearman scores values"):
        early_exit(found)


def test_messages_name_the_task_where_there_are_several():
    values = [make_record(depth=depth, metric="spearman", seen={"blocks": 1}) for depth in (0, 1)]
    with pytest.raises(RecordError, match=r"last \(org/tiny-model, conll, ner\): a prediction is"):
        early_exit([replace(one, head="last") for one in values])
    two = [*records(), *(replace(one, task="other") for one in records()[:1])]
    with pytest.raises(RecordError, match=r"last \(org/tiny-model, other, label\): there is a"):
        early_exit(two)


def test_both_need_probabilities_and_examples_need_texts():
    found = records(confidence=None)
    for measure in (early_exit, overthinking):
        with pytest.raises(RecordError, match=r"without probabilities .* train again with --predi"):
            measure(found)
    found = records()
    swapped(found[0], texts=())
    with pytest.raises(RecordError, match=r"without their texts .* train again with --predict"):
        overthinking(found, examples=1)
    with pytest.raises(OptionError, match="--examples -1"):
        overthinking(records(), examples=-1)


def test_what_has_no_classes_is_never_right():
    for metric, scored in (("spearman", "values"), ("perplexity", "losses")):
        with pytest.raises(RecordError, match=f"{metric} scores {scored}"):
            overthinking([replace(one, metric=metric) for one in records()])
