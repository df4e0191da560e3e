"""Methods: what of a model is trained beside the head that reads it.

To add one, write one file with a `Method`, and one line in ``METHODS``.
"""

from collections.abc import Mapping

from probekit.base.registry import parse
from probekit.tuning.adapter import Adapter
from probekit.tuning.contract import Method, Tuned
from probekit.tuning.diff_prune import DiffPrune
from probekit.tuning.full import BitFit, Frozen, Full
from probekit.tuning.lora import LoRA, QLoRA
from probekit.tuning.virtual_tokens import Prefix, Prompt

METHODS: Mapping[str, type[Method]] = {
    "frozen": Frozen,
    "full": Full,
    "bitfit": BitFit,
    "lora": LoRA,
    "qlora": QLoRA,
    "adapter": Adapter,
    "prompt": Prompt,
    "prefix": Prefix,
    "diff-prune": DiffPrune,
}


def method_of(text: str | None) -> Method | None:
    """Return the method that a run names; None of a run from the cache.

    Raises:
        UnknownNameError: there is none of this name.
        OptionError: it has no such setting.
    """
    return None if text is None else parse("method", text, METHODS)


__all__ = ["METHODS", "Method", "Tuned", "method_of"]
