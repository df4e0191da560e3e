"""What an entry says of itself: manifest and the model's small files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from probekit.backbone import Backbone
from probekit.base.fingerprint import digest
from probekit.extraction.plan import Plan
from probekit.extraction.write import total_statistics, ways_of_computing
from probekit.store.manifest import Manifest
from probekit.tasks import Split, Task, is_own
from probekit.version import __version__

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "zarr", "h5py")


def make_manifest(
    *,
    split: Split,
    task: Task,
    plan: Plan,
    request: Mapping[str, Any],
    backbone: Backbone,
    backend: str,
    model: str,
    unit_stats: Sequence[Mapping[str, Any]],
) -> Manifest:
    """Describe a complete entry."""
    info = backbone.info
    arrays = tuple(plan.arrays.values())
    return Manifest(
        key=digest(dict(request)),
        request=request,
        model=model,
        task=task.slug if is_own(task) else task.name,
        split=split.name,
        kind=task.kind,
        backend=backend,
        dtype=arrays[0].dtype,
        compute_dtype=backbone.compute_dtype_name,
        pooling=plan.pooling,
        arrays=arrays,
        n_blocks=info.n_blocks,
        dim=info.dim,
        causal=info.causal,
        final_norm=info.final_norm,
        counts=plan.encoded.counts,
        statistics=total_statistics(unit_stats),
        model_info=info.to_json(),
        origin=split.origin,
        versions={"probekit": __version__, **{name: version(name) for name in _LIBRARIES}},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        extra={
            "limit": split.limit,
            "computed": ways_of_computing(unit_stats),
            "batching": asdict(backbone.batching),
            "units": [unit.start for unit in plan.units],
        },
    )
