"""What chooses between the fits of one run: a split, folds or a share of what was drawn.

A strength of L2, a checkpoint or a learning rate that was chosen by its score on a split makes that
score too good, so the split that is reported should not be the one that chose.
"""

from dataclasses import dataclass
from typing import Self

from probekit.errors import OptionError

SEARCH = "search"
"""Value of an option that a sweep finds by trials."""

PUBLISHED, FIXED, SEARCHED = "published", "fixed", "searched"
"""Where a learning rate is from: the default of head or protocol, the user, or trials."""

RANDOM, SOLVED = "random", "solved"
"""Where head and decoder of a run that trains the model start, if not from a saved head."""

HELD_OUT = "held-out"
"""The split that ``--hold-out`` makes of a part of train, beside a dev split that is there."""

NESTED = "nested"
"""For each fold of dev, the other folds of dev."""

FORMS = (
    f"dev, cv:K (such as cv:5), hold-out:F (such as hold-out:0.1), {NESTED}:K (folds of dev, each "
    f"chosen for by the others) or {HELD_OUT} (with --hold-out)"
)


@dataclass(frozen=True)
class Selection:
    """What chooses: a split, folds of the drawn examples, or a share of them.

    Attributes:
        kind: ``dev`` or ``held-out`` (a split), ``nested`` (folds of dev), ``cv`` or ``hold-out``.
        folds: K of ``cv`` and of ``nested``; 0 elsewhere.
        default: folds by default, where the drawn examples allow fewer; else 0.
        share: F of ``hold-out``; 0 elsewhere.
    """

    kind: str
    folds: int = 0
    share: float = 0.0
    default: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the selection of a text: what a user typed, or what ``str`` wrote.

        Raises:
            OptionError: the text is none.
        """
        kind, _, value = text.strip().partition(":")
        try:
            if kind in ("dev", HELD_OUT) and not value:
                return cls(kind)
            folds, _, default = value.partition(" of ")
            if kind == "cv" and int(folds) >= 2 and (not default or int(default) > int(folds)):
                return cls("cv", folds=int(folds), default=int(default or 0))
            if kind == NESTED and int(value) >= 2:
                return cls(NESTED, folds=int(value))
            if kind == "hold-out" and 0 < float(value) < 1:
                return cls("hold-out", share=float(value))
        except ValueError:
            pass
        raise OptionError(f"--select {text!r}: choose {FORMS}; K is 2 or more, F between 0 and 1.")

    @classmethod
    def recorded(cls, text: str | None) -> Self | None:
        """Return the selection of a record's text, which may name groups: ``dev by prompt``."""
        return None if text is None else cls.parse(text.partition(" by ")[0])

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.folds:
            fewer = f" of {self.default}" if self.default else ""
            return f"{self.kind}:{self.folds}{fewer}"
        return f"hold-out:{self.share:g}" if self.kind == "hold-out" else self.kind

    @property
    def by_split(self) -> bool:
        """Whether a split chooses that no fit of the run sees."""
        return self.kind in ("dev", HELD_OUT, NESTED)

    @property
    def nested(self) -> bool:
        """Whether each fold of dev is scored by a fit that the others chose."""
        return self.kind == NESTED

    @property
    def cuts(self) -> bool:
        """Whether it cuts examples into parts, which groups may keep together."""
        return self.kind not in ("dev", HELD_OUT)

    @property
    def asked(self) -> str:
        """What chooses in every run of a setting, whatever its draw allows."""
        return f"cv:{self.default}" if self.default else str(self)

    def check_classes(self, most: int) -> None:
        """Refuse folds that no class can fill.

        Args:
            most: examples of the most frequent class that were drawn.

        Raises:
            OptionError: there are more folds than examples of the most frequent class.
        """
        if self.kind == "cv" and most < self.folds:
            raise OptionError(
                f"--select {self}: no class has {self.folds} examples among those drawn (the most "
                f"frequent one has {most}); draw more, or give --select "
                f"{f'cv:{most}' if most > 1 else 'dev'}."
            )

    def check_units(self, count: int, where: str, group: str | None) -> None:
        """Refuse more parts than there are sentences or groups to cut.

        Args:
            count: of sentences, or of groups where there are any.
            where: where they are counted, such as ``in dev``.
            group: the column of the groups; None where sentences are cut.

        Raises:
            OptionError: a part would be empty.
        """
        least = self.folds or 2
        if not self.cuts or count >= least:
            return
        units = "sentences" if group is None else f"groups (--group {group})"
        fewer = f"give --select {self.kind}:{count}" if self.folds and count > 1 else "give more"
        raise OptionError(
            f"--select {self} needs {least} {units} or more, and there "
            f"{'is' if count == 1 else 'are'} {count} {where}: {fewer}, or choose another --select."
        )
