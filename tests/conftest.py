"""Shape checks at run time for the tensor packages, and as many threads as the tests deserve."""

import atexit
import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from tests.shape_checks import checked

CHECKED = ("store", "probe", "data", "features", "train", "backbone")

# Before torch is imported: tests are small, and several processes often share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# What tests learn of models is none of the user's business, and the other way round.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="probekit-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# How long an example takes says something about the machine, not about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

install_import_hook(
    [f"probekit.{name}" for name in CHECKED], f"{checked.__module__}.{checked.__name__}"
)
