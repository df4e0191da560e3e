"""What the Ray engine settles without Ray: its options, and how it divides the cores of nodes."""

import sys
from types import SimpleNamespace

import pytest

from probekit.engines import RayEngine, engine_of, ray_engine
from probekit.engines.ray_engine import Node, threads_each
from probekit.errors import EngineError, OptionError


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: object())


def test_options_that_cannot_be_used(installed):
    with pytest.raises(OptionError, match="Ray's address ray://head:10001: probekit has to run on"):
        RayEngine(address="ray://head:10001")
    for part in (-0.5, 1.5, float("nan")):
        with pytest.raises(OptionError, match=f"gpus_per_worker {part}: expected a part of"):
            RayEngine(gpus_per_worker=part)


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    says = r"--engine ray needs the package ray\. Run `pip install .*\[ray\]'` in"
    with pytest.raises(OptionError, match=says):
        RayEngine()
    with pytest.raises(OptionError, match=says):
        next(engine_of("ray")([print], workers=1, report=print))


def test_an_environment_of_another_kind(installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    for address, error, says in (
        ("http://head:8265", OptionError, "Ray's address http://head:8265: probekit has to run on"),
        ("127.0.0.1:1", EngineError, "no Ray cluster can be reached at 127.0.0.1:1: Connection"),
    ):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(error, match=says):
            next(RayEngine()([print], workers=1, report=print))


def test_no_workers_are_refused_and_nothing_to_do_starts_no_cluster(installed):
    with pytest.raises(OptionError, match="--workers must be at least 1; found 0"):
        list(RayEngine()([print], workers=0, report=print))
    assert list(RayEngine()([], workers=2, report=print)) == []


ONE, TWO = Node(8), Node(8, 2)


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "threads"),
    [
        ([ONE], 3, 0, 2),
        ([ONE], 9, 0, 1),
        ([ONE, ONE], 3, 0, 4),
        ([ONE, Node(2)], 2, 0, 4),
        ([TWO], 2, 1, 4),
        ([TWO], 8, 1, 4),  # two of eight run at a time
        ([TWO], 8, 0.5, 2),
        ([TWO, ONE], 2, 1, 4),
        ([TWO, TWO], 2, 2, 8),
        ([ONE], 2, 1, 1),  # there is no GPU
        ([], 2, 0, 1),
        ([Node(0), ONE], 1, 0, 8),  # a head that runs nothing
        ([Node(0.5)], 1, 0, 1),
    ],
)
def test_workers_share_the_cores_of_nodes_that_have_room_for_them(nodes, workers, gpus, threads):
    assert threads_each(nodes, workers, gpus) == threads


def test_a_part_of_a_gpu_is_of_one_gpu():
    assert [TWO.room(1, gpus) for gpus in (0.3, 1 / 3, 0.6, 1, 2, 3)] == [6, 6, 2, 2, 1, 0]
