"""Shape checks of the first calls in the tensor packages, and as many threads as tests deserve."""

import atexit
import functools
import gc
import importlib.metadata
import logging
import os
import shutil
import signal
import sys
import tempfile

from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from tests.shape_checks import begin_test, install

CHECKED = ("store", "probe", "data", "features", "train", "backbone")

# Until all tests are collected, nothing that is made is garbage.
gc.disable()

# Before torch is imported: tests are small, and several processes often share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
threadpool_limits(1)  # a plugin of pytest has imported numpy already
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# What tests learn of models is none of the user's business, and the other way round.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="probekit-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Packages do not change while tests run, and their versions are asked for by every command.
importlib.metadata.version = functools.cache(importlib.metadata.version)

# What is synced outlives a power cut, which no test brings about.
os.fsync = lambda descriptor: None

# A shell's background jobs ignore SIGINT, and some tests interrupt their own process.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same code has the same verdict: `make faults` is where inputs are searched at random. How long
# an example takes says something about the machine, not about the code.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")

install([f"probekit.{name}" for name in CHECKED])


def remember_structures(inspecting):
    """Run the small copy of a model once for all tests: hundreds of them share a handful."""
    read, known = inspecting.read_structure, {}

    def remembered(name, config):
        key = config.to_json_string(use_diff=False)
        if key not in known:
            known[key] = read(name, config)
        return known[key]

    inspecting.read_structure = remembered


def pytest_runtest_setup():
    """Check shapes of the first calls in each test."""
    begin_test()


def pytest_collection_finish():
    """Search for garbage again, but less often, and no more among packages and collected tests."""
    if inspecting := sys.modules.get("probekit.backbone.inspecting"):
        remember_structures(inspecting)
    # with nothing left to silence, no batch empties the caches of all loggers
    if forward := sys.modules.get("probekit.backbone.forward"):
        for name in forward.CHATTY:
            logging.getLogger(name).setLevel(logging.ERROR)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()
