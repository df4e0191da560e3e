"""Methods: what of a model is trained beside the head that reads it.

To add one, write one file with a `Method`, and one line in ``METHODS``.
"""

from collections.abc import Mapping

from probekit.tuning.bitfit import BitFit
from probekit.tuning.contract import Method, Tuned
from probekit.tuning.frozen import Frozen
from probekit.tuning.full import Full
from probekit.tuning.lora import LoRA

METHODS: Mapping[str, type[Method]] = {
    "frozen": Frozen,
    "full": Full,
    "bitfit": BitFit,
    "lora": LoRA,
}

__all__ = ["METHODS", "Method", "Tuned"]
