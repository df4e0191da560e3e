"""The contracts of plug-ins as tests: what probekit runs on its own, for third parties on theirs.

``check_head(MyHead)`` runs all of them, and raises `PluginError` with the promise that is broken;
``HEAD_CHECKS`` and the like are the single checks, for ``pytest.mark.parametrize``.
"""

from probekit.metrics.metric_checks import METRIC_CHECKS, check_metric
from probekit.probe.decoders.decoder_checks import DECODER_CHECKS, check_decoder
from probekit.probe.fitters.fitter_checks import FITTER_CHECKS, check_fitter
from probekit.probe.heads.head_checks import HEAD_CHECKS, check_head
from probekit.probe.normalization.normalization_checks import (
    NORMALIZATION_CHECKS,
    check_normalization,
)
from probekit.results.trackers.tracker_checks import TRACKER_CHECKS, check_tracker
from probekit.tasks.task_checks import TASK_CHECKS, check_task

__all__ = [
    "DECODER_CHECKS",
    "FITTER_CHECKS",
    "HEAD_CHECKS",
    "METRIC_CHECKS",
    "NORMALIZATION_CHECKS",
    "TASK_CHECKS",
    "TRACKER_CHECKS",
    "check_decoder",
    "check_fitter",
    "check_head",
    "check_metric",
    "check_normalization",
    "check_task",
    "check_tracker",
]
