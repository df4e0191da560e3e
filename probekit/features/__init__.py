"""Features: rows of a cache entry joined with the labels of one column."""

from probekit.features.location import Location
from probekit.features.opened_splits import open_features
from probekit.features.rows import CachedRows, EntryRows, RowDataset, RowItem
from probekit.features.split_labels import LabelMap, load_labels
from probekit.features.splits import Splits
from probekit.features.view import FeatureView, choose_array, missing_array, settled_array

__all__ = [
    "CachedRows",
    "EntryRows",
    "FeatureView",
    "LabelMap",
    "Location",
    "RowDataset",
    "RowItem",
    "Splits",
    "choose_array",
    "load_labels",
    "missing_array",
    "open_features",
    "settled_array",
]
