"""Descent by steps: AdamW over shuffled batches, the best checkpoint kept."""

from dataclasses import dataclass
from typing import ClassVar

from probekit.probe.decoders.contract import DecoderSpec
from probekit.probe.fitters.contract import Fitter
from probekit.probe.heads.contract import HeadSpec


@dataclass(frozen=True, kw_only=True)
class Adam(Fitter):
    """AdamW or Adam, for every head and decoder; what it finds depends on rate and steps."""

    name: ClassVar[str] = "adam"
    summary: ClassVar[str] = "AdamW for a number of steps, at a rate; the best checkpoint is kept"
    numerics: ClassVar[int] = 1
    solves: ClassVar[bool] = False

    def unsuited(self, head: HeadSpec, decoder: DecoderSpec, *, frozen: bool) -> str | None:
        """Return None: it suits everything."""
        return None
