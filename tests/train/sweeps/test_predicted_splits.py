"""What a run's side file says of the sentences that belong together."""

import pytest

from probekit.features import Location
from probekit.results.predictions import read_predicted
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant, store_groups


@pytest.fixture
def cache(tmp_path):
    """Train, dev and test; train and dev know documents of 10 sentences, and all know prompts."""
    for split in ("train", "dev", "test"):
        entry = plant(tmp_path / "cache", split)
        ids = range(len(entry.examples))
        store_groups(entry, [f"{split} {n % 7}" for n in ids], "prompt")
        if split != "test":
            store_groups(entry, [f"{split}#{n // 10}" for n in ids])
    return tmp_path / "cache"


def predicted(cache, **options):
    spec = TrainSpec(**{"model": MODEL, "task": TASK, "label": "ner", "head": "last"} | options)
    out = cache.parent / "r.jsonl"
    (record,) = sweep([spec], out=out, location=Location(cache=cache), predictions=True)
    return read_predicted(record.predictions)[1]


def of(found):
    """The sentence's number in its split, and its group."""
    return [
        (int(one.partition("-")[2]), group)
        for one, group in zip(found.ids, found.groups, strict=True)
    ]


def test_documents_are_written_where_they_are_known(cache):
    found = predicted(cache)
    assert found["dev"].grouped_by == "document" and len(found["dev"].groups) > 20
    assert all(group == f"dev#{n // 10}" for n, group in of(found["dev"]))
    assert (found["test"].groups, found["test"].grouped_by) == ((), "")


def test_a_dev_that_is_cut_from_what_is_fitted_on_has_its_own(cache):
    held = predicted(cache, fit_on="dev", hold_out=0.3)["dev"]
    assert 0 < len(held.ids) < 20 and held.grouped_by == "document"
    assert all(group == f"dev#{n // 10}" for n, group in of(held))


def test_the_column_that_the_user_names_comes_first(cache):
    found = predicted(cache, group="prompt", select="cv:3")
    for split, one in found.items():
        assert one.grouped_by == "prompt"
        assert all(group == f"{split} {n % 7}" for n, group in of(one))
