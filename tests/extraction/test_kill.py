"""An extraction killed with SIGKILL at random moments resumes to the same bytes."""

import hashlib
import os
import random
import re
import signal
import time

import pytest

from probekit import Location, TrainSpec, fit
from probekit.extraction import extract
from probekit.extraction.maintenance import check_chunks
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.killed import run


def digests(cache):
    """Digest of every file by name, but for the time at which the manifest was made."""
    (entry,) = cache.glob("*/*/train-*[0-9a-f]")
    return {
        str(path.relative_to(entry)): hashlib.sha256(without_time(path)).hexdigest()
        for path in sorted(entry.rglob("*"))
        if path.is_file()
    }


def without_time(path):
    if path.name != "manifest.json":
        return path.read_bytes()
    text, times = re.subn(rb'"created": *"[^"]+"', b"", path.read_bytes())
    assert times == 1
    return text


def finish(processes, inputs, cache, backend):
    child = processes.Process(target=run, args=(*inputs, cache, backend))
    child.start()
    child.join(120)
    assert child.exitcode == 0


def kill_after(processes, inputs, cache, backend, units, delay):
    """Start an extraction and kill it some moment after ``units`` units are marked done."""
    child = processes.Process(target=run, args=(*inputs, cache, backend))
    child.start()
    while child.is_alive() and marked(cache) < units:
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    return child.exitcode


def marked(cache):
    return len(list(cache.glob("*/*/*.partial/building/units/*.json")))


def check_kills(processes, inputs, folder, backend, kills):
    finish(processes, inputs, folder / "whole", backend)
    expected = digests(folder / "whole")
    dice = random.Random(f"{backend} {kills}")
    halfway = 0
    for kill in range(kills):
        cache = folder / f"killed{kill}"
        code = kill_after(
            processes, inputs, cache, backend, dice.randrange(12), dice.uniform(0, 0.02)
        )
        halfway += code == -signal.SIGKILL and marked(cache) > 0
        finish(processes, inputs, cache, backend)
        assert digests(cache) == expected
        check_chunks(next(cache.glob("*/*/train-*[0-9a-f]")))
    assert halfway >= kills // 2, "most kills must hit a run that has done some of its units"


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_three_kills_resume_bit_for_bit(processes, many_units, tmp_path, backend):
    check_kills(processes, many_units, tmp_path, backend, kills=3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_twenty_kills_resume_bit_for_bit(processes, many_units, tmp_path, backend):
    check_kills(processes, many_units, tmp_path, backend, kills=20)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The folder of a run, whose model is extracted, and a corpus."""
    pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    root = tmp_path_factory.mktemp("run")
    model, few = tiny.build("gpt2", root / "model"), str(write_corpus(root / "few", sentences=8))
    extract(str(model), few, label="2", cache=root / "cache", device="cpu")
    spec = TrainSpec(model=str(model), task=few, label="2", head="last", method="lora", epochs=1)
    fit(spec, location=Location(cache=root / "cache"), save=root / "run", device="cpu")
    return str(root / "run"), str(write_corpus(root / "many", sentences=120))


@pytest.mark.slow
def test_two_kills_of_a_saved_run_resume_bit_for_bit(processes, tuned, tmp_path):
    check_kills(processes, tuned, tmp_path, "zarr", kills=2)
