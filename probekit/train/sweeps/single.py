"""Train one head, and return it instead of recording it."""

from probekit.features import Location
from probekit.train import FitResult
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.specs import TrainSpec
from probekit.train.sweeps.start import open_splits
from probekit.train.sweeps.worker import fit_runs


def fit(
    spec: TrainSpec,
    *,
    location: Location | None = None,
    device: str = "auto",
    memory: int | None = None,
) -> FitResult:
    """Train one head from the cache.

    Args:
        spec: the options; what is ``None`` takes its default.
        location: where entries and labels lie; ``None`` is the folder ``cache``.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.
        memory: bytes that rows may take; more are streamed. ``None`` is half of what is free.

    Returns:
        The trained state, scores, learning curve, layer weights and predictions.

    Raises:
        OptionError: an option cannot be used.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
        MissingFileError: no saved head lies where the run should start from one.
        RecordError: it is damaged.
    """
    splits = open_splits(spec, location)
    ((_, result),) = fit_runs(
        [resolve(spec, splits)],
        splits,
        device=device,
        memory=memory,
        predictions=True,
        report=lambda news: None,
    )
    return result
