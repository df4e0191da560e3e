"""Features: rows of a cache entry joined with the labels of one column."""

from probekit.features.labels import LabelMap
from probekit.features.view import FeatureView

__all__ = ["FeatureView", "LabelMap"]
