from .arrays import ArraySpec
from .builder import EntryBuilder
from .entry import Entry
from .feature_array import FeatureArray
from .find import find_entries
from .manifest import Manifest
from .stored_rows import StoredRows
from .tables import ExampleTable

__all__ = [
    "ArraySpec",
    "Entry",
    "EntryBuilder",
    "ExampleTable",
    "FeatureArray",
    "Manifest",
    "StoredRows",
    "find_entries",
]
