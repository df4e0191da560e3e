"""A stream whose members are solved: each reads its own layers, and takes no steps."""

from probekit.features import FeatureView
from probekit.probe.heads.contract import Reads
from probekit.train.member import Member
from probekit.train.residency import Residency
from probekit.train.scoring import ScoredSplit
from probekit.train.solving.linear_fit import LinearFit
from probekit.train.solving.mixture_fit import MixtureFit
from probekit.train.solving.solver import Fit, HeadRows, LayerRows, SplitName, run_fits
from probekit.train.source import Source
from probekit.train.stream import Report, StreamSpec, named, union
from probekit.train.treatment import fit_treatment

SOLVER_STEPS = 100
"""What a solved member counts on a progress bar."""


class SolvedStream:
    """The members of one sample, solved one after the other, or in shared passes over the disk.

    Attributes:
        spec: what is fitted.
        members: the heads.
    """

    def __init__(self, spec: StreamSpec, residency: Residency, judge: ScoredSplit) -> None:
        """Build the members.

        Args:
            spec: what to fit.
            residency: opens what they read.
            judge: chooses the strength where a member's selection says that a split does.
        """
        self.spec = spec
        self._residency, self._judge = residency, judge
        self._said = ""
        self._sources = [self._open(member.layers, member.head.reads) for member in spec.members]
        self.members = tuple(
            Member(
                member,
                fit_treatment(member.normalize, sources["train"].rows),
                seed=spec.seed,
                train=spec.train,
                device=residency.device,
            )
            for member, sources in zip(spec.members, self._sources, strict=True)
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
        fits = [
            self._fit(member, sources)
            for member, sources in zip(self.members, self._sources, strict=True)
        ]
        layers = union([self.spec])
        for reads, own in layers.items():
            some = [fit for fit in fits if fit.rows.member.spec.head.reads == reads]
            run_fits(
                some,
                self._open(own, reads),
                done=lambda: report(SOLVER_STEPS),
                at=lambda fit: self._say(fit, report),
            )

    def _say(self, fit: Fit, report: Report) -> None:
        """Report which member is being fitted, and the best score so far on what chooses."""
        text, score = named(fit.rows.member, self.spec), fit.best_score
        if score is not None:
            text = f"{text}: {self._judge.metric.scale.text(score)}"
        if text != self._said:
            self._said = text
            report(text)

    def _fit(self, member: Member, sources: dict[SplitName, Source]) -> Fit:
        """Return what fits a member."""
        memory = self._residency.left
        trains_nothing = not any(value.requires_grad for value in member.probe.head.parameters())
        if trains_nothing:
            width = member.probe.head.width
            own = HeadRows(member, sources, width=width, memory=memory)
            return LinearFit(member, own, metric=self._judge.metric, judge=self._judge)
        width = len(member.spec.layers) * member.probe.head.dim
        layers = LayerRows(member, sources, width=width, memory=memory)
        return MixtureFit(member, layers, metric=self._judge.metric, judge=self._judge)
