"""An extraction killed with SIGKILL within a unit resumes to the same bytes."""

import hashlib
import re
from functools import partial

import pytest

from probekit import Location, TrainSpec, fit
from probekit.extraction.maintenance import check_chunks
from tests import tiny
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import entries_of, run
from tests.forks import kill_at


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


def marked(cache):
    return len(list(cache.glob("*/*/*.partial/building/units/*.json")))


def check_kill(inputs, folder, **options):
    whole = run(*inputs, folder / "whole", **options)
    again = partial(run, *inputs, folder / "killed", **options)
    chunks = check_chunks(whole.path)
    kill_at("probekit.store.codec.checksum", chunks // 2, again)
    assert marked(folder / "killed") > 1
    assert check_chunks(again().path) == chunks
    assert digests(folder / "killed") == digests(folder / "whole")


def test_a_kill_within_a_unit_resumes_bit_for_bit(many_units, tmp_path):
    check_kill(many_units, tmp_path)


@pytest.mark.slow
def test_a_kill_of_a_saved_run_resumes_bit_for_bit(tmp_path, small_units):
    pytest.importorskip("peft", reason="the optional extra finetune is not installed")
    model, few = tiny.build("gpt2", tmp_path / "model"), write_corpus(tmp_path / "few", sentences=8)
    entries_of(model, few, tmp_path / "cache", ["train", "dev"])
    spec = TrainSpec(
        model=str(model), task=str(few), label="2", head="last", method="lora", epochs=1
    )
    fit(spec, location=Location(cache=tmp_path / "cache"), save=tmp_path / "run", device="cpu")
    many = write_corpus(tmp_path / "many", sentences=120)
    check_kill((tmp_path / "run", many), tmp_path, batch_tokens=64)
