"""QLoRA: LoRA beside linear layers in 4 bits, by bitsandbytes and peft (Dettmers et al. 2023)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from probekit.tuning.lora import LoRA


@dataclass(frozen=True, kw_only=True)
class QLoRA(LoRA):
    """LoRA of a model whose linear layers are in NF4, in blocks of 64 whose scales are float32.

    The model of an entry is quantized for the run, whether it was for the entry or not. All linear
    layers get matrices; then their rank counts little (appendix A).
    """

    name: ClassVar[str] = "qlora"
    learning_rate: ClassVar[float] = 2e-4
    source: ClassVar[str] = "Dettmers et al. 2023, section 3, appendix B.2"
    summary: ClassVar[str] = "lora beside all linear layers, which are in 4 bits"
    quantizes: ClassVar[bool] = True
    stays_apart: ClassVar[str | None] = (
        "the matrices were trained beside weights in 4 bits, and what is added to these is rounded "
        "to 4 bits. Load the base in 4 bits, and the run's folder backbone with "
        "PeftModel.from_pretrained."
    )

    targets: Literal["attention", "linear"] = "linear"
