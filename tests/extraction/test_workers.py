"""Several processes that one call starts leave what one process does."""

import pickle
from contextlib import nullcontext
from functools import partial

import pytest

from probekit.engines import ENGINES, run_local
from probekit.errors import OptionError, UnknownNameError
from probekit.extraction import ExtractOptions, ExtractTarget, Shard, extraction_call
from probekit.extraction.maintenance import check_chunks
from tests.extraction.conftest import make_small
from tests.extraction.extracted import entries_of, interrupted_after
from tests.extraction.test_kill import digests

run = partial(entries_of, splits=None, dtype="auto")


@pytest.fixture
def in_turn(monkeypatch):
    """An engine that runs pickled jobs here, one by one, on small units; the jobs it was given."""
    make_small(monkeypatch, 7_000)
    given = []

    def start(jobs, *, workers, report):
        given.append((jobs, workers))
        yield from run_local(pickle.loads(pickle.dumps(jobs)), workers=1, report=report)

    monkeypatch.setitem(ENGINES, "in-turn", start)
    return given


def test_shards_of_one_call_leave_the_bytes_of_one_process(bert, corpus, tmp_path, in_turn):
    alone = run(bert, corpus, tmp_path / "alone")
    for count in (3, 1):  # another engine has a single worker too
        at = partial(run, bert, corpus, tmp_path / f"{count}", workers=count, engine="in-turn")
        assert [entry.path.name for entry in at()] == [entry.path.name for entry in alone]
        assert digests(tmp_path / f"{count}") == digests(tmp_path / "alone")
        at()
    given = [(workers, [str(job.target.shard) for job in jobs]) for jobs, workers in in_turn]
    assert given == [(3, ["1/3", "2/3", "3/3"]), (1, ["1/1"])], "what is complete starts no worker"


def test_workers_elsewhere_find_their_own_devices(bert, corpus, tmp_path, in_turn, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    run(bert, corpus, tmp_path, workers=2, engine="in-turn", device="auto", splits=["dev"])
    assert [job.target.device for job in in_turn[0][0]] == ["auto"] * 2


@pytest.fixture
def seen(monkeypatch):
    """The total and the count of each bar of workers."""
    bars = []

    class Bar:
        def __init__(self, *, total, initial=0, desc, shown, leave=True, **_):
            self.own = desc == "train"
            if self.own:
                bars.append([total, initial])

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def report(self, news):
            if self.own:
                bars[-1][1] += news

    monkeypatch.setattr("probekit.extraction.extraction_call.ProgressBar", Bar)
    return bars


def test_the_bar_counts_every_subword_once_and_those_of_an_earlier_run(
    bert, corpus, tmp_path, in_turn, seen
):
    split = {"splits": ["train"], "engine": "in-turn", "workers": 2}
    with interrupted_after(1):
        run(bert, corpus, tmp_path, **split)
    run(bert, corpus, tmp_path, **split)
    (total, before), (again, after) = seen
    assert total == again == after and 0 < before < total


@pytest.mark.parametrize("units", [1, None])
def test_the_bar_counts_every_subword_once_where_jobs_run_again(
    bert, corpus, tmp_path, in_turn, seen, units
):
    """Jobs are lost after so many units, or when done, and what they reported is taken back."""

    def start(jobs, *, workers, report):
        for place, job in enumerate(jobs):
            lost = []
            with nullcontext() if units is None else interrupted_after(units):
                list(job(lost.append))
            assert lost
            yield from ((place, result) for result in job(report))

    run(bert, corpus, tmp_path, splits=["train"], workers=2, engine=start)
    ((total, count),) = seen
    assert total == count


@pytest.mark.slow  # what workers are is tested with engines, and what they do with `in-turn`
def test_worker_processes(bert, corpus, tmp_path):
    entries = run(bert, corpus, tmp_path, workers=2)
    assert [entry.manifest.split for entry in entries] == ["train", "dev"]
    for entry in entries:
        check_chunks(entry.path)
        assert [way["device"] for way in entry.manifest.extra["computed"]] == ["cpu"]


def test_commands_name_the_workers_and_not_their_shards():
    for more, named in (({"workers": 2}, "--workers 2"), ({}, "--shard 1/2")):
        target = ExtractTarget(model="m", task="conll", shard=Shard(1, 2), **more)
        assert target.command(ExtractOptions()) == f"probekit extract m conll {named}"


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("auto", ["cuda:0", "cuda:1", "cuda:0"]),
        ("cuda", ["cuda:0", "cuda:1", "cuda:0"]),
        ("cuda:1", ["cuda:1"] * 3),
        ("cpu", ["cpu"] * 3),
    ],
)
def test_gpus_are_taken_in_turn(monkeypatch, device, expected):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    target = ExtractTarget(model="m", task="conll", device=device, workers=3)
    assert extraction_call._devices(target) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 0}, "--workers must be at least 1; found 0"),
        ({"workers": 2, "overwrite": True}, "--workers 2 with --overwrite"),
        ({"workers": 2, "restart": True}, "--workers 2 with --restart"),
        ({"workers": 2, "shard": "1/2"}, "--shard 1/2 with --workers 2"),
        ({"workers": 2, "engine": "cloud"}, "cloud"),
        ({"shard": "1/2", "engine": "in-turn"}, "--shard 1/2 with another --engine"),
        ({"overwrite": True, "engine": "in-turn"}, "another --engine with --overwrite"),
    ],
)
def test_what_workers_cannot_do(bert, corpus, tmp_path, in_turn, options, says):
    with pytest.raises((OptionError, UnknownNameError), match=says):
        run(bert, corpus, tmp_path / "cache", **options)
    assert not (tmp_path / "cache").exists()
