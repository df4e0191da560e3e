"""Features: rows of a cache entry joined with the labels of one column."""

from probekit.features.labels import LabelMap
from probekit.features.location import Location
from probekit.features.reading import load_labels, view_of
from probekit.features.splits import Splits, open_features
from probekit.features.view import FeatureView

__all__ = [
    "FeatureView",
    "LabelMap",
    "Location",
    "Splits",
    "load_labels",
    "open_features",
    "view_of",
]
