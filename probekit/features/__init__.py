"""Features: rows of a cache entry joined with the labels of one column."""

from probekit.features.labels import LabelMap
from probekit.features.location import Location
from probekit.features.reading import load_labels, view_of
from probekit.features.rows import OWN_ROWS, choose_array, missing_array, settled_array
from probekit.features.splits import CLASS_KINDS, Splits, open_features
from probekit.features.view import FeatureView

__all__ = [
    "CLASS_KINDS",
    "OWN_ROWS",
    "FeatureView",
    "LabelMap",
    "Location",
    "Splits",
    "choose_array",
    "load_labels",
    "missing_array",
    "open_features",
    "settled_array",
    "view_of",
]
