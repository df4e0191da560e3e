"""What a record says of how its fit went: whether it converged, and what the draw lacked."""

from typing import Any

import numpy as np

from probekit.features import FeatureView
from probekit.train.member import Member
from probekit.train.parts import class_counts
from probekit.train.sampling import type_names
from probekit.train.stream import StreamSpec

_FALLING = 0.99
"""The training loss still falls where its last mean is below this share of the one before."""


def diagnose(member: Member, stream: StreamSpec, dev: FeatureView) -> dict[str, Any]:
    """Return what is worth knowing of a fit, by the names that `results.diagnosis` reads.

    Args:
        member: trained and scored.
        stream: what it was trained on.
        dev: the rows that its best state predicted.
    """
    found = dict(member.solved) or _descent(member, stream)
    if member.selection_score is not None:
        found["selection_score"] = member.selection_score
    return found | _classes(member, stream.train, dev)


def _descent(member: Member, stream: StreamSpec) -> dict[str, Any]:
    """Return whether more steps might have helped; nothing of a run without steps."""
    if len(member.curve) < 2 or member.best is None:
        return {}
    (_, before, _), (_, last, _) = member.curve[-2:]
    return {
        "best_is_last": member.best.step == stream.total_steps,
        "falling": last < _FALLING * before,
    }


def _classes(member: Member, train: FeatureView, dev: FeatureView) -> dict[str, Any]:
    """Return which classes the draw lacks, and whether one alone is predicted."""
    if not len(train.labels) or member.best is None:
        return {}
    counts = class_counts(train)
    names = set(type_names(train.labels.names)) - {"O"}
    return {
        "one_class": len(np.unique(member.best.predicted)) == 1 and len(dev) > 1,
        "absent": sum(counts.get(name, 0) == 0 for name in names),
        "single": sum(counts.get(name, 0) == 1 for name in names),
    }
