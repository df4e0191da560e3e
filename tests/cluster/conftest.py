"""A Ray cluster of this machine: one node with the driver, and others that come and go."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEALTH = {
    "health_check_initial_delay_ms": 1_000, "health_check_period_ms": 1_000,
    "health_check_timeout_ms": 5_000, "health_check_failure_threshold": 5,
}  # fmt: skip
"""A node that dies is missed soon; one of a busy machine is not."""


@pytest.fixture(scope="session")
def cluster():
    """A cluster whose first node, of one core, is the driver's."""
    before = dict(os.environ)
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    ray = pytest.importorskip("ray", reason="the extra probekit[ray] is not installed")
    from ray.cluster_utils import Cluster

    made = Cluster()
    made.add_node(num_cpus=1, include_dashboard=False, _system_config=HEALTH)
    ray.init(made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.clear()
    os.environ |= before


@pytest.fixture
def second(cluster):
    """Another node of one core, which a test may remove."""
    with another_node(cluster) as node:
        yield node


@contextmanager
def another_node(cluster, **resources):
    """A node that is there for a while, and is known to be gone after that."""
    node = cluster.add_node(**{"num_cpus": 1, **resources})
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node, allow_graceful=False)
    import ray

    assert eventually(lambda: sum(one["Alive"] for one in ray.nodes()) == 1)


def eventually(condition, seconds=300):
    """Wait for a condition, and return whether it came true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()
