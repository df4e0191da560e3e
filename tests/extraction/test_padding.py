"""Rows do not depend on the batch, whatever a family makes of padding: extract, verify, predict."""

import random

import pyarrow.parquet as pq
import pytest

from probekit.data.batches import PADDED
from probekit.extraction.maintenance import verify_rows
from probekit.features import Location
from probekit.train.saved.labelling import predict
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.specs import TrainSpec
from tests.extraction.extracted import entries_of
from tests.random_models import save_family
from tests.tiny import SENTENCES

OF_ONE_LENGTH = {"padded_to": 0, "alone": False}
LEAKY = ["fnet", "mobilebert", "convbert", "nystromformer"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Sentences of very different lengths."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    for split, count in (("train", 12), ("dev", 4)):
        blocks = []
        for number in range(count):
            words = rng.choice(SENTENCES).split()[: 1 + number * 5 % 9]
            blocks.append("\n".join(f"{w} {'B-UP' if w[0].isupper() else 'O'}" for w in words))
        (folder / f"{split}.conll").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=LEAKY)
def leaky(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return save_family(request.param, folder / "model"), folder / "cache"


def make(model, corpus, cache):
    return {e.manifest.split: e for e in entries_of(model, corpus, cache, None, label=None)}


def test_rows_of_a_leaky_family_are_those_of_each_sentence_alone(leaky, corpus):
    model, cache = leaky
    entry = make(model, corpus, cache)["train"]
    assert entry.manifest.extra["batching"] == OF_ONE_LENGTH
    report = verify_rows(entry, 1000)
    assert report.passed and max(report.p99) < 1e-5


@pytest.mark.parametrize("leaky", LEAKY[:1], indirect=True)
def test_predict_reads_what_training_read(leaky, corpus, tmp_path):
    model, cache = leaky
    dev = make(model, corpus, cache)["dev"]
    (record,) = sweep(
        [TrainSpec(model=model, task=str(corpus), head="p32", epochs=1)],
        out=tmp_path / "runs.jsonl", location=Location(cache=cache), save=tmp_path / "head",
        predictions=True,
    )  # fmt: skip
    expected = pq.read_table(record.predictions)["predicted"].to_pylist()
    words = [dev.examples.words(number) for number in range(len(dev.examples))]
    assert predict(tmp_path / "head", [list(some) for some in words]) == expected
    one_by_one = [predict(tmp_path / "head", [list(some)])[0] for some in words]
    assert one_by_one == expected


@pytest.mark.parametrize("leaky", LEAKY[:1], indirect=True)
def test_verify_looks_where_padding_would_have_leaked(leaky, corpus, tmp_path, monkeypatch):
    """Few random rows would miss it: the most padded sentence is read whole."""
    model, _ = leaky
    with monkeypatch.context() as trusting:
        trusting.setattr("probekit.backbone.model.prove_batching", lambda *arguments: PADDED)
        entry = make(model, corpus, tmp_path)["train"]
    assert not verify_rows(entry, 1).passed
