"""What a fitter is, a way to find the trained values of a head and its decoder; and four."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from probekit.probe.decoders.contract import DecoderSpec
from probekit.probe.heads.contract import HeadSpec

if TYPE_CHECKING:
    from torch.optim import Optimizer  # which takes a second to import


@dataclass(frozen=True, kw_only=True)
class Fitter(ABC):
    """A way to fit: a value that says what it suits.

    Attributes:
        name: key in ``FITTERS``.
        summary: one line for people.
        numerics: version of its arithmetic, which is part of a run's key: raised when a stored
            score may move beyond its last bits, so that resuming never mixes two.
        solves: whether it solves for the optimum; else it descends by steps.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    numerics: ClassVar[int]
    solves: ClassVar[bool]

    @abstractmethod
    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return why it cannot fit a head with a decoder, in words; None if it can.

        Args:
            head: the head.
            decoder: the decoder.
            frozen: whether the head is kept as it is, so that the decoder alone is fitted.
        """

    def numerics_of(self, head: HeadSpec, *, frozen: bool) -> int:
        """Return the version of its arithmetic where it fits a head; most have one for all."""
        return self.numerics

    def optimizer(
        self, groups: Sequence[dict[str, Any]], weight_decay: float | None
    ) -> "Optimizer | None":
        """Return what takes the steps of a fitter that descends; None is AdamW, or Adam.

        Args:
            groups: trained values by their peak rate, ``{"params": [...], "lr": rate}``; before
                each step ``lr`` is set to what the schedule leaves of it.
            weight_decay: as asked for; None where the optimizer ``adam`` asks for none.
        """
        return None

    def path_fit(self, *, trains_head: bool) -> type[Any] | None:
        """Return what does the work of a fitter that solves: a class that derives from `PathFit`.

        None is `LinearFit` of a decoder alone, and `MixtureFit` with a mixture of the layers
        (``probekit.train.solving``).

        Args:
            trains_head: whether the head has values to be fitted.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class Adam(Fitter):
    """AdamW or Adam, for every head and decoder; what it finds depends on rate and steps."""

    name: ClassVar[str] = "adam"
    summary: ClassVar[str] = "AdamW for a fixed number of steps; the best checkpoint is kept"
    numerics: ClassVar[int] = 1
    solves: ClassVar[bool] = False

    def numerics_of(self, head: HeadSpec, *, frozen: bool) -> int:
        """Return the version of steps over rows, or over tokens of texts in blocks."""
        return 2 if head.reads == "texts" else self.numerics

    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return None: it suits everything."""
        return None


@dataclass(frozen=True, kw_only=True)
class LBFGS(Fitter):
    """Full-batch L-BFGS: convex for a decoder alone, from several starts with a mixture."""

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "L-BFGS to the optimum, with L2 tuned along a path"
    numerics: ClassVar[int] = 2
    solves: ClassVar[bool] = True

    def numerics_of(self, head: HeadSpec, *, frozen: bool) -> int:
        """Return the version of fits of a decoder alone, or of a mixture with it."""
        return self.numerics if frozen or head.trains == "nothing" else 4

    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return why, unless the decoder's loss is convex and the head at most a mixture."""
        if decoder.objective is None:
            return f"the decoder {decoder.name} is not convex in its weights"
        if not frozen and head.trains == "maps":
            return f"the head {head.name} trains maps of its own"
        return None


@dataclass(frozen=True, kw_only=True)
class SaeProbes(Fitter):
    """Logistic regression of two classes, as the runner of sae-probes fits it.

    Rows stay as they are. dev chooses among ten strengths by AUROC, and all rows of train and dev
    are fitted again with that one.
    """

    name: ClassVar[str] = "sae-probes"
    summary: ClassVar[str] = "two classes on raw rows; dev picks C by AUROC, then joins the fit"
    numerics: ClassVar[int] = 1
    solves: ClassVar[bool] = True

    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return why, unless a plain linear decoder alone is fitted."""
        if decoder.name != "linear":
            return f"it fits a linear decoder, and this one is {decoder.name}"
        if not frozen and head.trains != "nothing":
            return f"the head {head.name} trains values of its own"
        return None


@dataclass(frozen=True, kw_only=True)
class Ridge(Fitter):
    """Least squares with L2 by one eigendecomposition of the rows' covariance."""

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "least squares in closed form, for numbers"
    numerics: ClassVar[int] = 1
    solves: ClassVar[bool] = True

    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return why, unless numbers are fitted and nothing but the decoder is trained."""
        if decoder.objective != "squares":
            return f"the decoder {decoder.name} predicts no numbers"
        if not frozen and head.trains != "nothing":
            return f"the head {head.name} trains values of its own"
        return None
