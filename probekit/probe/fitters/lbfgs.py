"""L-BFGS over all rows to the optimum, for every strength of L2."""

from dataclasses import dataclass
from typing import ClassVar

from probekit.probe.decoders.contract import DecoderSpec
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads.contract import HeadSpec


@dataclass(frozen=True, kw_only=True)
class LBFGS(Fitter):
    """Full-batch L-BFGS: convex for a decoder alone, from several starts with a mixture."""

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "L-BFGS to the optimum, the strength of L2 chosen on a path"
    numerics: ClassVar[int] = 2
    solves: ClassVar[bool] = True

    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return why, unless the decoder's loss is convex and the head at most a mixture."""
        if decoder.objective is None:
            return f"the decoder {decoder.name} is not convex in its weights"
        if not frozen and head.trains == "maps":
            return f"the head {head.name} trains maps of its own"
        return None
