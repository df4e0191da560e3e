from .builder import EntryBuilder as EntryBuilder
from .codec import StoredRows as StoredRows
from .entry import Entry as Entry
from .feature_array import FeatureArray as FeatureArray
from .find import find_entries as find_entries
from .layout import ArraySpec as ArraySpec
from .manifest import Manifest as Manifest
from .tables import ExampleTable as ExampleTable
