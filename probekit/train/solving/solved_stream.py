"""A stream whose members are solved: each reads its own layers, and takes no steps.

Fits whose rows are in memory run one after the other; those whose rows are not wait for each
other, so that one pass over the disk serves all of them.
"""

from collections.abc import Callable, Mapping, Sequence

from probekit.engines import Report
from probekit.features import FeatureView
from probekit.probe.fitters import FITTERS
from probekit.probe.heads.contract import Reads
from probekit.train.dev_folds import DevFolds
from probekit.train.member import Member
from probekit.train.residency import Residency
from probekit.train.scoring import ScoredSplit
from probekit.train.solving.path_fit import PathFit
from probekit.train.solving.solved_fits import LinearFit, MixtureFit
from probekit.train.solving.split_rows import SplitName
from probekit.train.source import Source
from probekit.train.stopwatch import Stopwatch
from probekit.train.stream import StreamSpec, union

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
        folds_of: Callable[[Member], DevFolds | None] = lambda member: None,
    ) -> None:
        """Build the members.

        Args:
            spec: what to fit.
            residency: opens what they read.
            judge: chooses the strength where a member's selection says that a split does.
            folds_of: returns the folds of that split, where the selection of a member is nested.
        """
        self.spec, self._folds_of = spec, folds_of
        self._residency, self._judge = residency, judge
        self._said = ""
        self._sources = [self._open(member.layers, member.head.reads) for member in spec.members]
        self.members = tuple(
            Member(
                member,
                sources["train"].fitted(member.normalize),
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
        pairs = zip(self.members, self._sources, strict=True)
        fits = [self._fit(member, sources) for member, sources in pairs]
        held = [fit for fit in fits if fit.rows.held]
        for fit in held:
            with fit.member.stepping.running():
                for visit in fit.visits():
                    self._say(fit, report)
                    for rows, block in fit.rows.blocks(visit.split):
                        visit.take(rows, block)
            self._say(fit, report)
            fit.rows.release()
            report(SOLVER_STEPS)
        for reads, layers in union([self.spec]).items():
            apart = [f for f in fits if f not in held and f.member.spec.head.reads == reads]
            stopwatch = Stopwatch(self._residency.device, among=len(apart))
            for fit in apart:
                fit.member.stepping = stopwatch
            with stopwatch.running():
                self._solve_together(apart, self._open(layers, reads), report)
            for _ in apart:
                report(SOLVER_STEPS)

    def _solve_together(
        self, fits: Sequence[PathFit], shared: Mapping[SplitName, Source], report: Report
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
                if (found := next(visits, None)) is None:
                    del waiting[key]
                else:
                    waiting[key] = found

    def _say(self, fit: PathFit, report: Report) -> None:
        """Report which member is being fitted, and the best score so far on what chooses."""
        text, score = fit.member.name, fit.best_score
        if score is not None:
            text = f"{text}: {self._judge.metric.scale.text(score)}"
        if text != self._said:
            self._said = text
            report(text)

    def _fit(self, member: Member, sources: dict[SplitName, Source]) -> PathFit:
        """Return what fits a member: its decoder, or the mixture of its layers as well."""
        trains_head = any(value.requires_grad for value in member.probe.head.parameters())
        own = FITTERS[member.spec.fitter].path_fit(trains_head=trains_head)
        kind: type[PathFit] = own or (MixtureFit if trains_head else LinearFit)
        folds = self._folds_of(member)
        return kind(member, sources, judge=self._judge, folds=folds, memory=self._residency.left)
