from .arrays import ArraySpec
from .builder import EntryBuilder
from .codec import StoredRows
from .entry import Entry
from .feature_array import FeatureArray
from .find import find_entries
from .manifest import Manifest
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
