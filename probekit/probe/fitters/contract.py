"""What a fitter is: how the trained values of a head and its decoder are found."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from probekit.probe.decoders.contract import DecoderSpec
from probekit.probe.heads.contract import HeadSpec


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
