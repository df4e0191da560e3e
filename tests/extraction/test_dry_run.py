"""Forecasts: what would be written is what is written, and when a cache pays."""

import shutil
from dataclasses import replace

import pytest

from probekit.errors import StorageError
from probekit.extraction import (
    ExtractOptions,
    ExtractTarget,
    Forecast,
    break_even,
    extract,
    forecast,
    open_session,
    training_split,
)
from probekit.extraction.compute import tokens_per_second
from probekit.extraction.forecasting import DiskSpeed, measure_disk
from probekit.store.layout import PARTIAL, beside
from probekit.tasks import TextOptions
from tests.extraction.conftest import make_small
from tests.extraction.extracted import interrupted_after

SPEED = DiskSpeed(write=1e6, read=4e6)


def made(split="train", *, seconds=10.0, rerun=5.0, read=1.0):
    return Forecast(
        split=split, path=split, complete=False, begun=0.0, examples=1, rows={"words": 1}, nbytes=1,
        seconds=seconds, units=1, unit_seconds=1.0, rerun_seconds=rerun, read_seconds=read,
    )  # fmt: skip


def opened(model, corpus, options=None, **target):
    named = ExtractTarget(model=str(model), task=str(corpus), device="cpu", **target)
    return open_session(named, options)


pytestmark = pytest.mark.usefixtures("small_file")


@pytest.fixture(scope="module")
def place(bert, corpus, tmp_path_factory):
    return bert, corpus, tmp_path_factory.mktemp("forecast") / "cache"


def test_what_is_forecast_is_written(place):
    model, corpus, cache = place
    options = ExtractOptions(dtype="int8", compute_dtype="float32")
    asked = {"options": options, "device": "cpu", "cache": cache}
    session, splits = opened(model, corpus, options, cache=cache)
    found = forecast(session, splits)
    assert not cache.exists() and not list(cache.parent.glob(".*.probekit"))
    entries = extract(str(model), str(corpus), **asked)
    for one, entry in zip(found, entries, strict=True):
        manifest = entry.manifest
        assert (one.split, one.path, one.complete) == (manifest.split, str(entry.path), False)
        assert one.nbytes == sum(spec.nbytes for spec in manifest.arrays)
        assert one.rows == {name: manifest.counts[name] for name in ("words", "tokens")}
        assert one.examples == manifest.counts["examples"]
        assert min(one.seconds, one.rerun_seconds, one.read_seconds) > 0
    again = forecast(session, splits)
    assert all(one.complete and one.seconds == 0 for one in again)
    session, splits = opened(model, corpus, options, cache=cache, overwrite=True)
    assert not any(one.complete for one in forecast(session, splits))


def test_what_an_interrupted_extraction_did_is_not_forecast_again(
    place, tmp_path, monkeypatch, caplog
):
    model, corpus, _ = place
    make_small(monkeypatch, 8_000)
    asked = {"device": "cpu", "cache": tmp_path / "cache", "splits": ["train"]}
    options = ExtractOptions(compute_dtype="float32", dtype="auto")
    with interrupted_after(3):
        extract(str(model), str(corpus), options=options, **asked)
    copied = shutil.copytree(tmp_path / "cache", tmp_path / "copied")
    there = {"cache": asked["cache"], "splits": ("train",)}
    session, (split,) = opened(model, corpus, options, **there)
    plan = session.plan(split)
    (found,) = forecast(session, [split])
    written = plan.largest_first[:3]
    done, all_of_it = (sum(map(plan.unit_tokens, units)) for units in (written, plan.units))
    assert found.begun == done / all_of_it and 0 < found.begun < 1 and not found.complete
    with caplog.at_level("INFO", "probekit"):
        extract(str(model), str(corpus), options=options, **asked | {"cache": copied})
    assert f"); {found.begun:.0%} of it is there already" in caplog.text
    other = replace(options, batch_tokens=64)  # goes on all the same
    session, (split,) = opened(model, corpus, other, **there)
    assert forecast(session, [split])[0].begun == found.begun


@pytest.mark.parametrize(
    ("share", "least", "most"), [(0, 128, 128), (0.2, 129, 511), (1, 512, 512)]
)
def test_a_forecast_runs_its_share(place, tmp_path, monkeypatch, share, least, most):
    sentences = "".join("\n".join(["the\tO", "a\tO"] * 5) + "\n\n" for _ in range(160))
    (tmp_path / "train.tsv").write_text(sentences)
    session, (split,) = opened(place[0], tmp_path, cache=place[2])
    plan = session.plan(split)
    ran = []

    def run_pass(backbone, plan, batch):
        ran.append(int(batch.lengths.sum()))

    monkeypatch.setattr("probekit.extraction.compute.run_pass", run_pass)
    monkeypatch.setattr("probekit.extraction.compute.seconds_of", lambda work: work() or 0.5)
    speed = tokens_per_second(session.backbone, plan, share=share)
    warm_up, measured = ran
    lengths = plan.encoded.window_lengths
    allowed = min(max(int(share * lengths.sum()), 128), 512)
    assert least <= allowed <= most
    assert allowed - lengths.max() < measured <= allowed
    assert warm_up < measured / 3
    assert speed == measured / 0.5


def test_an_epoch_reads_one_row_of_a_text_and_no_subwords(place, tmp_path, monkeypatch):
    model, _, _ = place
    (tmp_path / "train.csv").write_text("text,label\n" + "one two three,a\nfour five,b\n" * 40)
    monkeypatch.setattr("probekit.extraction.forecasting.measure_disk", lambda *_, **__: SPEED)
    for keep, arrays in ((None, 3), (("cls", "tokens"), 2)):
        session, splits = opened(
            model, tmp_path, ExtractOptions(compute_dtype="float32", keep=keep),
            own=TextOptions(kind="sentence"), cache=tmp_path / "cache",
        )  # fmt: skip
        (one,), plan = forecast(session, splits), session.plan(splits[0])
        assert len(plan.arrays) == arrays
        assert one.read_seconds == plan.arrays["cls"].nbytes / SPEED.read
        # One unit, so that nothing is written while the model runs.
        assert one.seconds > one.nbytes / SPEED.write / 2 > 0


def test_an_epoch_with_the_model_pads_batches_of_16_in_the_order_of_the_data(
    place, tmp_path, monkeypatch
):
    """17 texts: 16 padded to the longest of them, and one alone."""
    lengths = [3, 9, *[4] * 14, 5]  # words, each of them a subword; two are special
    text = "\n".join("the\tO\n" + "a\tO\n" * (length - 1) for length in lengths)
    (tmp_path / "train.tsv").write_text(text)
    session, splits = opened(place[0], tmp_path, cache=tmp_path / "cache")
    assert session.plan(splits[0]).encoded.window_lengths.tolist() == [n + 2 for n in lengths]
    monkeypatch.setattr("probekit.extraction.forecasting.measure_disk", lambda *_, **__: SPEED)
    monkeypatch.setattr("probekit.extraction.forecasting.tokens_per_second", lambda *_: 100.0)
    (found,) = forecast(session, splits)
    assert found.rerun_seconds == (16 * 11 + 7) / 100
    seconds = sum(n + 2 for n in lengths) / 100 + found.nbytes / SPEED.write
    assert found.seconds == pytest.approx(seconds)  # one unit: it is written when it is computed


def test_a_full_disk_is_told(place, caplog, monkeypatch):
    model, corpus, cache = place
    options = ExtractOptions(compute_dtype="float32")
    session, splits = opened(model, corpus, options, cache=cache / "other")
    usage = shutil.disk_usage(cache.parent)._replace(free=1000)
    monkeypatch.setattr("probekit.store.files.shutil.disk_usage", lambda path: usage)
    assert forecast(session, splits)
    assert "has 1.0 kB free, and this extraction writes" in caplog.text


def test_what_an_interrupted_extraction_wrote_is_not_needed_again(place, caplog, monkeypatch):
    model, corpus, cache = place
    options = ExtractOptions(compute_dtype="float32")
    session, splits = opened(model, corpus, options, cache=cache / "stopped", splits=("train",))
    there = {beside(session.address(splits[0]).folder, PARTIAL): 1000}
    monkeypatch.setattr("probekit.extraction.drafting.disk_bytes", there.__getitem__)
    needed = session.plan(splits[0]).nbytes - 1000
    usage = shutil.disk_usage(cache.parent)
    for free, warned in ((needed, False), (needed - 1, True)):
        room = usage._replace(free=free)
        monkeypatch.setattr("probekit.store.files.shutil.disk_usage", lambda path, room=room: room)
        forecast(session, splits)
        assert ("this extraction writes" in caplog.text) == warned


def test_break_even():
    """Extraction of both splits over what an epoch over train saves: (10 + 2) / (5 - 1)."""
    splits = [made("dev", seconds=2.0, rerun=9.0), made("train")]
    assert training_split(splits).split == "train"
    assert break_even(splits) == 3.0
    assert training_split([made("dev"), made("test")]).split == "dev"
    assert break_even([made(read=5.0)]) is break_even([made(read=6.0)]) is None, "it never pays"


def test_speed_of_the_disk(tmp_path, monkeypatch, caplog):
    for resident in (False, True):
        assert min(measure_disk(tmp_path / "not" / "there" / "yet", resident=resident)) > 0
        assert list(tmp_path.iterdir()) == []

    def refusing(number, text):
        def write(files, file, data):
            raise OSError(number, text)

        monkeypatch.setattr("probekit.extraction.forecasting.WholeFiles.write", write)

    refusing(13, "Permission denied")
    with pytest.raises(StorageError, match=r"cannot write to .*: Permission denied"):
        measure_disk(tmp_path, resident=True)
    refusing(28, "No space left on device")
    assert measure_disk(tmp_path, resident=True) == (1e9, 1e9)
    monkeypatch.setattr("probekit.extraction.forecasting.free_bytes", lambda folder: 0)
    refusing(13, "is not written to")
    assert measure_disk(tmp_path, resident=True) == (1e9, 1e9)
    assert (
        caplog.text.count("has no room for measuring the speed of its disk; 1 GB/s is assumed") == 2
    )
