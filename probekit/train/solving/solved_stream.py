"""A stream whose members are solved: each reads its own layers, and takes no steps.

Fits whose rows are in memory run one after the other; those whose rows are not wait for each
other, so that one pass over the disk serves all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from probekit.base.tensors import Stopwatch
from probekit.engines import Report
from probekit.features import FeatureView
from probekit.probe.fitters import FITTERS
from probekit.probe.heads.contract import HeadSpec, Reads
from probekit.probe.heads.sums import Last, Mean
from probekit.train.member import Member, MemberSpec
from probekit.train.scoring import ScoredSplit
from probekit.train.solving.mixture_fit import MixtureFit
from probekit.train.solving.path_fit import LinearFit, SaeProbesFit
from probekit.train.solving.solved_fit import SolvedFit, SplitName
from probekit.train.source import Source
from probekit.train.stream import Residency, StreamSpec

SOLVER_STEPS = 100
"""What a solved member counts on a progress bar."""


class SolvedStream:
    """The members of one sample, solved one after the other, or in shared passes over the disk.

    Attributes:
        spec: what is fitted.
        members: the heads.
    """

    def __init__(
        self,
        spec: StreamSpec,
        residency: Residency,
        judge: ScoredSplit,
    ) -> None:
        """Build the members.

        Args:
            spec: what to fit.
            residency: opens what they read.
            judge: chooses the strength where a member's selection says that a split does.
        """
        self.spec = spec
        self._residency, self._judge = residency, judge
        self._said = ""
        self.members = tuple(self._member(member) for member in spec.members)

    def _member(self, spec: MemberSpec) -> Member:
        return Member(
            spec,
            self._open(spec.layers, spec.head.reads)["train"].fitted(spec.normalize),
            seed=self.spec.seed,
            train=self.spec.train,
            device=self._residency.device,
        )

    def _open(self, layers: tuple[int, ...], reads: Reads) -> dict[SplitName, Source]:
        views: dict[SplitName, FeatureView] = {"train": self.spec.train, "judge": self._judge.view}
        return {
            name: self._residency.source(view, reads, layers, once=True)
            for name, view in views.items()
        }

    @property
    def finished(self) -> tuple[Member, ...]:
        """The members that are solved."""
        return tuple(member for member in self.members if member.solved)

    def solve(self, report: Report) -> None:
        """Solve all members."""
        # What a mixture contains is solved before it, once for all mixtures that contain it.
        alone = [self._fit(member, {}) for member in self.members if not _mixes(member)]
        contained = {fit.member.spec: fit for fit in alone}
        mixtures = [self._fit(member, contained) for member in self.members if _mixes(member)]
        others = [fit for fit in contained.values() if fit not in alone]
        self._solve_stage([*alone, *others], report)
        self._solve_stage(mixtures, report)

    def _solve_stage(self, fits: Sequence[SolvedFit], report: Report) -> None:
        """Solve fits that wait for no others."""
        held = [fit for fit in fits if fit.rows.held]
        for fit in held:
            with fit.member.stepping.running():
                for visit in fit.visits():
                    self._say(fit, report)
                    for rows, block in fit.rows.blocks(visit.split):
                        visit.take(rows, block)
            self._end([fit], fit.member.stepping, report)
            fit.rows.release()
        apart = [fit for fit in fits if fit not in held]
        for reads in sorted({fit.member.spec.head.reads for fit in apart}):
            alike = [fit for fit in apart if fit.member.spec.head.reads == reads]
            layers = tuple(sorted({n for fit in alike for n in fit.member.spec.layers}))
            stopwatch = Stopwatch(self._residency.device, among=len(alike))
            for fit in alike:
                fit.member.stepping = stopwatch
            with stopwatch.running():
                self._solve_together(alike, self._open(layers, reads), report)
            self._end(alike, stopwatch, report)

    def _end(self, fits: Sequence[SolvedFit], stopwatch: Stopwatch, report: Report) -> None:
        """Count what the fits contain among their seconds, and members on the progress bar."""
        before = sum(part.member.stepping.seconds for fit in fits for part in fit.contained)
        stopwatch.add(before / len(fits))
        for fit in fits:
            if fit.member in self.members:
                self._say(fit, report)
                report(SOLVER_STEPS)

    def _solve_together(
        self, fits: Sequence[SolvedFit], shared: Mapping[SplitName, Source], report: Report
    ) -> None:
        """Run fits whose rows stay on the disk: a pass over a split serves all that wait for it.

        Args:
            fits: what reads the same kind of thing.
            shared: sources with all the layers that they read.
            report: receives what is being fitted, between the passes.
        """
        # Of fits A and B, A asks for train, then judge, B for train twice: one pass over train
        # serves both, one over judge A alone, another one over train B alone.
        running = {id(fit): (fit, fit.visits()) for fit in fits}
        waiting = {key: next(visits) for key, (_, visits) in running.items()}
        while waiting:
            split = next(iter(waiting.values())).split
            served = {key: visit for key, visit in waiting.items() if visit.split == split}
            start = 0
            for inputs in shared[split].blocks():
                rows = slice(start, start + len(inputs.targets))
                start = rows.stop
                for key, visit in served.items():
                    visit.take(rows, running[key][0].rows.of(inputs))
            for key in served:
                fit, visits = running[key]
                self._say(fit, report)
                if (following := next(visits, None)) is None:
                    del waiting[key]
                else:
                    waiting[key] = following

    def _say(self, fit: SolvedFit, report: Report) -> None:
        """Report which member is being fitted, and the best score so far on what chooses."""
        text, score = fit.member.name, fit.best_score
        if score is not None:
            text = f"{text}: {self._judge.metric.scale.text(score)}"
        if text != self._said:
            self._said = text
            report(text)

    def _fit(self, member: Member, contained: dict[MemberSpec, SolvedFit]) -> SolvedFit:
        """Return what fits a member: its decoder, or the mixture of its layers as well.

        Args:
            member: to be fitted.
            contained: fits that a mixture may contain; those that it needs besides join them.
        """
        spec = member.spec
        mixes = _mixes(member)
        build: Callable[..., SolvedFit] | None = FITTERS[spec.fitter].path_fit(trains_head=mixes)
        if build is None and mixes:
            several = spec.layers if len(spec.layers) > 1 else ()
            build = partial(
                MixtureFit,
                average=self._contained(spec, Mean(), spec.layers, contained),
                alone=[self._contained(spec, Last(), (n,), contained) for n in several],
            )
        elif build is None:
            build = SaeProbesFit if spec.fitter == "sae-probes" else LinearFit
        return build(
            member,
            sources=self._open(spec.layers, spec.head.reads),
            judge=self._judge,
            memory=self._residency.left,
        )

    def _contained(
        self,
        mixture: MemberSpec,
        head: HeadSpec,
        layers: tuple[int, ...],
        fits: dict[MemberSpec, SolvedFit],
    ) -> LinearFit:
        """Return the fit of a head that is one of the mixtures, such as the average of layers."""
        fitter = "ridge" if mixture.decoder.objective == "squares" else "lbfgs"
        spec = replace(mixture, head=head, layers=layers, fitter=fitter)
        if spec not in fits:
            fits[spec] = self._fit(self._member(spec), {})
        fit = fits[spec]
        assert isinstance(fit, LinearFit)
        return fit


def _mixes(member: Member) -> bool:
    """Tell whether a member's head is fitted as well."""
    return any(value.requires_grad for value in member.probe.head.parameters())
