"""The plug-ins of third parties that a run is made of, with their origins."""

from probekit.base.plugins import PluginOrigin
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS
from probekit.probe.fitters import FITTERS
from probekit.probe.heads import HEADS
from probekit.probe.normalization import NORMALIZATIONS

Origins = dict[str, dict[str, str]]


def used_plugins(
    *, head: str, decoder: str, normalization: str, fitter: str, metric: str
) -> Origins:
    """Return the origin of each plug-in that is not probekit's own, by kind."""
    found: dict[str, PluginOrigin | None] = {
        "head": HEADS.origin(head),
        "decoder": DECODERS.origin(decoder),
        "normalization": NORMALIZATIONS.origin(normalization),
        "fitter": FITTERS.origin(fitter),
        "metric": METRICS.origin(metric),
    }
    return {kind: one.to_json() for kind, one in found.items() if one is not None}
