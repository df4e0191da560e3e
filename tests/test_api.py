"""The public names: loaded lazily, documented, and not shadowed by modules of the same name."""

import inspect
import subprocess
import sys

import pytest

import probekit


@pytest.mark.parametrize("name", probekit.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(probekit, name)
    assert name in dir(probekit)
    if callable(value):
        assert inspect.getdoc(value)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No probekit attribute extrct"):
        _ = probekit.extrct


def test_functions_stay_functions_whatever_is_imported_first():
    code = (
        "import importlib, pkgutil, probekit\n"
        "for found in pkgutil.walk_packages(probekit.__path__, 'probekit.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "assert all(callable(getattr(probekit, n)) for n in ('extract', 'fit', 'sweep', 'predict'))"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
