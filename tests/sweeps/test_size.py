"""What planning takes for a run's size is what the run trains."""

import pytest

from probekit.decoders import DECODERS
from probekit.features import Location, open_features
from probekit.heads import HEADS
from probekit.specs import TrainSpec
from probekit.sweeps import fit
from probekit.sweeps.resolve import resolve
from tests.planted import MODEL, TASK, plant_all
from tests.planted_texts import KINDS, plant_all_texts


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"))
    for task in KINDS:
        plant_all_texts(root, task)
    return Location(cache=root)


def both(location, **options):
    """Return the planned size of a run, and what it trained."""
    spec = TrainSpec(**{"model": MODEL, "head": "p32", "epochs": 1, "lr": 1e-3} | options)
    splits = open_features(spec.model, spec.task, spec.label, location)
    return resolve(spec, splits).n_params, fit(spec, location=location, device="cpu").n_params


@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_counted_with_its_decoder(location, head):
    planned, trained = both(location, task="glue/rte", head=head)
    assert planned == trained > 0


@pytest.mark.parametrize("name", [*DECODERS, "mlp:hidden=32", "crf:hidden=8"])
def test_every_decoder_is_counted(location, name):
    kinds = DECODERS[name.partition(":")[0]].kinds
    tasks = {TASK: "tagging"} | {task: kind for task, (kind, _) in KINDS.items()}
    for task in (task for task, kind in tasks.items() if kind in kinds):
        planned, trained = both(location, task=task, decoder=name)
        assert planned == trained > 4


@pytest.mark.parametrize("hold_out", [None, 0.25])
def test_what_is_scored_is_counted_in_batches(location, hold_out):
    splits = open_features(MODEL, TASK, "ner", location)
    rows = {name: len(splits.view(name)) for name in ("train", "dev", "test")}
    dev = rows["dev"] if hold_out is None else hold_out * rows["train"]
    spec = TrainSpec(
        model=MODEL, task=TASK, head="p32", lr=1e-3, evals=3, batch_size=8, hold_out=hold_out
    )
    batch = 8 * rows["train"] / splits.view("train").n_examples
    expected = (3 * dev + rows["test"]) / batch
    assert resolve(spec, splits).n_scored == pytest.approx(expected)
