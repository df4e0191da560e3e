"""LoRA: products of two thin matrices beside weights of the model, by peft (Hu et al. 2021)."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import nn

from probekit.errors import OptionError
from probekit.tuning.contract import Method, Values, drawing_from
from probekit.tuning.packaging import Packaging, PeftAdapter

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PROJECTIONS = (
    *(("q_proj", "v_proj"), ("query", "value"), ("q_lin", "v_lin"), ("q", "v")),
    *(("qkv_proj",), ("Wqkv",), ("query_key_value",), ("c_attn",), ("qkv",)),
)
"""What linear layers to queries and values are called, or those to both."""


@dataclass(frozen=True, kw_only=True)
class LoRA(Method):
    """W x + (alpha / rank) B A x beside the frozen W; B starts at 0 (Hu et al. 2021, eq. 3).

    Attributes:
        rank: rows of A, columns of B.
        alpha: see the equation.
        dropout: of x before A.
        targets: the query and value projections of attention, or all linear layers.
    """

    name: ClassVar[str] = "lora"
    learning_rate: ClassVar[float] = 5e-4
    stays_apart: ClassVar[str | None] = None
    source: ClassVar[str] = "Hu et al. 2021, sections 4.1 and 4.2, appendix D"
    summary: ClassVar[str] = "two thin matrices beside each query and value projection"

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    targets: Literal["attention", "linear"] = "attention"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.rank < 1 or self.alpha < 1 or not 0 <= self.dropout < 1:
            raise OptionError(
                f"--method {self.name}: rank and alpha must be at least 1, and dropout from 0 to "
                f"below 1; found rank={self.rank}, alpha={self.alpha}, dropout={self.dropout:g}."
            )

    @property
    def packaging(self) -> Packaging:
        """PEFT's own."""
        return PeftAdapter()

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Put the matrices into the model.

        Raises:
            OptionError: peft does not know which layers of such a model are meant.
            BackboneError: peft is not installed.
        """
        with drawing_from(generator, self.name), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "fan_in_fan_out")  # peft sets it as the layer wants
            from peft import LoraConfig, inject_adapter_in_model

            config = LoraConfig(
                r=self.rank,
                lora_alpha=self.alpha,
                lora_dropout=self.dropout,
                target_modules=self._targets(model),
            )
            try:
                inject_adapter_in_model(config, model)
            except ValueError as error:
                other = f"--method {self.name}:targets=linear"
                if self.targets == "linear":
                    other = "another method, such as bitfit"
                raise OptionError(f"--method {self.name}: {error} Give {other}.") from error
        return {name: value for name, value in model.named_parameters() if "lora_" in name}

    def _targets(self, model: "PreTrainedModel") -> str | list[str] | None:
        """Return the names of the layers that get matrices, None where peft knows them.

        Raises:
            OptionError: the model's attention has no layers that are called as its projections are.
        """
        from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

        if self.targets == "linear":
            return "all-linear"
        kind = model.config.model_type
        if kind in KNOWN:
            return None
        layers = (name for name, layer in model.named_modules() if isinstance(layer, nn.Linear))
        names = {name.rpartition(".")[2] for name in layers}
        for wanted in _PROJECTIONS:
            if names.issuperset(wanted):
                return list(wanted)
        projections = ", ".join(map(" and ".join, _PROJECTIONS))
        raise OptionError(
            f"--method {self.name}: no layer of {kind} has one of the known names of query and "
            f"value projections ({projections}). Give --method {self.name}:targets=linear."
        )

    def merge(self, model: "PreTrainedModel") -> None:
        """Add each product of matrices to the weight that it lies beside."""
        from peft.tuners.tuners_utils import BaseTunerLayer

        def first() -> tuple[str, Any] | None:
            modules = model.named_modules()
            return next((pair for pair in modules if isinstance(pair[1], BaseTunerLayer)), None)

        while (layer := first()) is not None:  # they may lie within each other
            name, part = layer
            part.merge()
            model.set_submodule(name, part.base_layer)


@dataclass(frozen=True, kw_only=True)
class QLoRA(LoRA):
    """LoRA of a model whose linear layers are in NF4, in blocks of 64 whose scales are float32.

    The model of an entry is quantized for the run, whether it was for the entry or not. All linear
    layers get matrices; then their rank counts little (appendix A).
    """

    name: ClassVar[str] = "qlora"
    learning_rate: ClassVar[float] = 2e-4
    source: ClassVar[str] = "Dettmers et al. 2023, section 3, appendix B.2"
    summary: ClassVar[str] = "lora on all linear layers of a model in 4 bits"
    quantizes: ClassVar[bool] = True
    stays_apart: ClassVar[str | None] = (
        "the matrices were trained beside 4-bit weights, and merging would round them to 4 bits. "
        "Load the base in 4 bits, and the run's folder backbone with PeftModel.from_pretrained."
    )

    targets: Literal["attention", "linear"] = "linear"
