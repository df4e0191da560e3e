"""The public names: loaded lazily, documented, and not shadowed by modules of the same name."""

import inspect
import pkgutil

import pytest

import probekit


def test_every_public_name_is_there_and_documented():
    values = {name: getattr(probekit, name) for name in probekit.__all__}
    assert values.keys() <= set(dir(probekit))
    assert all(inspect.getdoc(value) for value in values.values() if callable(value))
    assert all(callable(values[name]) for name in ("extract", "fit", "sweep", "predict"))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No probekit attribute extrct"):
        _ = probekit.extrct


def test_no_public_name_is_that_of_a_module_whose_import_would_replace_it():
    modules = {found.name for found in pkgutil.iter_modules(probekit.__path__)}
    assert "extraction" in modules and not modules & set(probekit.__all__)
