"""Ridge regression in closed form, for every strength of L2."""

from dataclasses import dataclass
from typing import ClassVar

from probekit.probe.decoders.contract import DecoderSpec
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads.contract import HeadSpec


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
