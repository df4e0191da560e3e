"""What chooses between the fits of one run: a split, folds or a share of what was drawn.

A strength of L2, a checkpoint or a learning rate that was chosen by its score on a split makes that
score too good, so the split that is reported should not be the one that chose.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from probekit.errors import OptionError

SEARCH = "search"
"""Value of an option that a sweep finds by trials."""

PUBLISHED, FIXED, SEARCHED = "published", "fixed", "searched"
"""Where a learning rate is from: the default of head or protocol, the user, or trials."""

RANDOM, SOLVED = "random", "solved"
"""Where head and decoder of a run that trains the model start, if not from a saved head."""

PROTOCOL_DEFAULTS: Mapping[str, Any] = {
    "optimizer": "adamw",
    "schedule": "linear",
    "warmup": 0,
    "weight_decay": 0.01,
    "batch_size": 16,
    "evals": 10,
    "batch_tokens": 4096,
}
"""Training options that the file of a ``--protocol`` states, and what they are without one."""

HELD_OUT = "held-out"
"""The split that ``--hold-out`` makes of a part of train, beside a dev split that is there."""

FORMS = f"dev, cv:K (such as cv:5), hold-out:F (hold-out:0.1) or {HELD_OUT} (with --hold-out)"


@dataclass(frozen=True)
class Selection:
    """What chooses: a split, folds of the drawn examples, or a share of them.

    Attributes:
        kind: ``dev`` or ``held-out`` (a split), ``cv`` or ``hold-out``.
        folds: K of ``cv``; 0 elsewhere.
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
            if kind == "hold-out" and 0 < float(value) < 1:
                return cls("hold-out", share=float(value))
        except ValueError:
            pass
        raise OptionError(f"--select {text!r}: choose {FORMS}; K is 2 or more, F between 0 and 1.")

    @classmethod
    def recorded(cls, text: str | None) -> Self | None:
        """Return the selection of a record's text, which may name groups: ``dev by prompt``.

        Earlier versions had folds of dev, each scored by what the others chose: ``nested:5``.
        """
        if text is None or text.startswith("nested:"):
            return None
        return cls.parse(text.partition(" by ")[0])

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.folds:
            fewer = f" of {self.default}" if self.default else ""
            return f"{self.kind}:{self.folds}{fewer}"
        return f"hold-out:{self.share:g}" if self.kind == "hold-out" else self.kind

    @property
    def by_split(self) -> bool:
        """Whether a split chooses that no fit of the run sees."""
        return self.kind in ("dev", HELD_OUT)

    @property
    def cuts(self) -> bool:
        """Whether it cuts examples into parts, which groups may keep together."""
        return not self.by_split

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
        fewer = f"give --select cv:{count}" if self.folds and count > 1 else "give more"
        raise OptionError(
            f"--select {self} needs {least} {units} or more, and there "
            f"{'is' if count == 1 else 'are'} {count} {where}: {fewer}, or choose another --select."
        )
