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

HELD_OUT = "held-out"
"""The split that ``--hold-out`` makes of a part of train, beside a dev split that is there."""

FORMS = (
    f"dev, cv:K (such as cv:5), hold-out:F (such as hold-out:0.1) or {HELD_OUT} (with --hold-out)"
)


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

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.kind == "cv":
            fewer = f" of {self.default}" if self.default else ""
            return f"cv:{self.folds}{fewer}"
        return f"hold-out:{self.share:g}" if self.kind == "hold-out" else self.kind

    @property
    def by_split(self) -> bool:
        """Whether a split chooses that no fit of the run sees."""
        return self.kind in ("dev", HELD_OUT)

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
