"""A solved start: head and decoder as the cache has them, before the model is trained with them.

Linear probing, then fine-tuning (Kumar et al. 2022, "Fine-tuning can distort pretrained features
and underperform out-of-distribution").
"""

from dataclasses import fields, replace
from typing import Any

from probekit.base.selection import SOLVED, Selection
from probekit.engines import Report
from probekit.errors import OptionError
from probekit.features import FeatureView
from probekit.metrics import Metric
from probekit.probe.decoders import DecoderSpec
from probekit.probe.fitters import FITTERS
from probekit.probe.heads.contract import HeadSpec
from probekit.train.fit import fit_group
from probekit.train.member import MemberSpec
from probekit.train.option_groups import Descent, Steps
from probekit.train.result import FitResult
from probekit.train.stream import StreamSpec
from probekit.train.sweeps.fitting import solver_of
from probekit.train.sweeps.run_options import DEFAULT_START, Origin, Start, Tuning
from probekit.train.sweeps.specs import TrainSpec


def starts_solved(spec: TrainSpec) -> bool:
    """Say whether a run is to start from a solved head, by its options or by default."""
    saved = spec.fusion_from or spec.init_from
    return spec.tunes and not saved and (spec.start or DEFAULT_START) == SOLVED


def solving_spec(
    spec: TrainSpec, filled: TrainSpec, head: HeadSpec, decoder: DecoderSpec
) -> TrainSpec:
    """Return the run from the cache that finds where another one starts.

    A split that chooses the other's checkpoint chooses its strength of L2. Where a share of the
    drawn sentences does that, the choice is a solver's usual one, on the sentences that are left.

    Args:
        spec: the run that starts there, as the user gave it.
        filled: the same, filled in.
        head: its head.
        decoder: its decoder.

    Raises:
        OptionError: nothing solves them.
    """
    select = Selection.parse(str(filled.select))
    solver = solver_of(head, decoder)
    if solver is None:
        reason = FITTERS["lbfgs"].unsuited(head, decoder, frozen=False)
        raise OptionError(f"{reason}, so nothing solves it. Choose others, see `probekit heads`.")
    others = (Tuning, Steps, Descent, Start, Origin)
    usual: dict[str, Any] = {one.name: one.default for group in others for one in fields(group)}
    settings = str(filled.decoder).split(":")
    usual["decoder"] = ":".join(one for one in settings if not one.startswith("dropout="))
    # what judges in the run's stream stands in for dev: see `solve_start`
    usual["select"] = "dev" if select.by_split else None
    return replace(filled, **usual, fit=solver, normalize=spec.normalize)


def solve_start(
    stream: StreamSpec,
    solving: MemberSpec,
    dev: FeatureView,
    *,
    metric: type[Metric],
    device: str,
    memory: int | None,
    report: Report,
) -> FitResult:
    """Return the head that a run starts from, fitted to the cached rows that it trains on.

    Args:
        stream: the run's; what judges its checkpoints judges the solver's strengths.
        solving: the same head and decoder, to be solved.
        dev: scored once.
        metric: how.
        device: what computes.
        memory: bytes that rows may take.
        report: receives the progress.
    """
    ((found,),) = fit_group(
        [replace(stream, members=(solving,))],
        dev,
        metric=metric,
        device=device,
        memory=memory,
        report=report,
    )
    return found


def started(stream: StreamSpec, start: FitResult) -> StreamSpec:
    """Return the stream of a run that starts there, and is scored there."""
    (member,) = stream.members
    return replace(stream, members=(replace(member, start=start.state),), scored_first=True)


def with_start(result: FitResult, start: FitResult) -> FitResult:
    """Return the result of a run with the seconds and the dev score of its start."""
    return replace(
        result,
        train_seconds=start.train_seconds + result.train_seconds,
        diagnosis={**result.diagnosis, "start_score": start.eval_score},
    )
