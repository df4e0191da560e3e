"""The model of a saved run, extracted, broken off and gone on with."""

import pytest

from probekit import Location, TrainSpec, fit
from probekit.extraction import extract
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.test_kill import check_kills, digests, processes  # noqa: F401


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The folder of a run, and a corpus."""
    pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    root = tmp_path_factory.mktemp("run")
    model, few = tiny.build("gpt2", root / "model"), str(write_corpus(root / "few", sentences=8))
    extract(str(model), few, label="2", cache=root / "cache", device="cpu")
    spec = TrainSpec(model=str(model), task=few, label="2", head="last", method="lora", epochs=1)
    fit(spec, location=Location(cache=root / "cache"), save=root / "run", device="cpu")
    return str(root / "run"), str(write_corpus(root / "many", sentences=120))


@pytest.mark.slow
def test_two_kills_resume_bit_for_bit(processes, tuned, tmp_path):  # noqa: F811
    check_kills(processes, tuned, tmp_path, "zarr", kills=2)
