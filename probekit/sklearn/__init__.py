"""A probe as scikit-learn knows estimators, for its pipelines, searches and scorers."""

from probekit.sklearn.layer_probe import LayerProbe

__all__ = ["LayerProbe"]
