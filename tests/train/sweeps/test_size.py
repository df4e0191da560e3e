"""What planning takes for a run's size is what the run trains."""

import pytest

from probekit.features import Location, open_features
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import fit
from probekit.train.sweeps.run_views import scored_views
from probekit.train.sweeps.specs import TrainSpec
from tests.planted import MODEL, TASK, plant_all
from tests.planted_texts import KINDS, plant_all_texts, plant_texts


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    root = plant_all(tmp_path_factory.mktemp("cache"))
    for task in KINDS:
        plant_all_texts(root, task)
    plant_all_texts(root, "glue/mnli")
    plant_texts(root, "glue/mnli", "dev-mm", seed=7, count=40)
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
@pytest.mark.parametrize("task", [TASK, *KINDS, "glue/mnli"])
def test_what_is_scored_is_counted_in_batches(location, task, hold_out):
    spec = TrainSpec(model=MODEL, task=task, head="p32", evals=3, batch_size=8, hold_out=hold_out)
    splits = open_features(MODEL, task, None, location)
    rows = {name: len(view) for name, view in scored_views(spec, splits).items()}
    assert len(rows) == (4 if task == "glue/mnli" else 3) - 1 + (hold_out is not None)
    train, judging = splits.view("train"), rows["dev" if hold_out is None else "held-out"]
    expected = (2 * judging + sum(rows.values())) * train.n_examples / (8 * len(train))
    # a hold-out is whole sentences: nearly its share of the rows
    tolerance = 1e-6 if hold_out is None else 0.1
    assert resolve(spec, splits).n_scored == pytest.approx(expected, rel=tolerance)
