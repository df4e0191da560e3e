"""Units so small that an entry has several, as in the tests of extraction."""

from tests.extraction.conftest import small_units

__all__ = ["small_units"]
