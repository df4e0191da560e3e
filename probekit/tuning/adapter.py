"""Bottleneck adapters after attention and feed-forward layers (Houlsby et al. 2019)."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from probekit.errors import OptionError
from probekit.tuning.contract import Method, Values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OUTPUTS = (
    ("attention.output.dropout", "output.dropout"),  # BERT, RoBERTa, ELECTRA, DeBERTa
    ("attention.dropout", "output.dropout"),  # MPNet
    ("attention.out_lin", "ffn.dropout"),  # DistilBERT
    ("attn.resid_dropout", "mlp.dropout"),  # GPT-2
    ("self_attn.o_proj", "mlp.down_proj"),  # Llama, Mistral, Qwen, Gemma, Phi-3
    ("attn.Wo", "mlp.Wo"),  # ModernBERT
    ("attention.dense", "mlp.dense_4h_to_h"),  # GPT-NeoX
    ("self_attention.dense", "mlp.dense_4h_to_h"),  # BLOOM, Falcon
    ("self_attn.out_proj", "fc2"),  # OPT
    ("layer.0.dropout", "layer.1.dropout"),  # the encoder of T5
)
"""Within a block, the modules that return what attention and feed-forward add to the residual."""

_SPREAD = 0.01
"""Standard deviation of what projects down (Houlsby et al. 2019, section 3.6)."""


@dataclass(frozen=True, kw_only=True)
class Adapter(Method):
    """h + W_up gelu(W_down h + b_down) + b_up on what is added to the residual; W_up starts at 0.

    Of width D and ``size`` m an adapter has 2 m D + D + m values. The norms are trained as well,
    as in the paper.

    Attributes:
        size: the bottleneck's width.
        after: both layers, as in the paper, or the feed-forward layer alone (Pfeiffer et al. 2021).
    """

    name: ClassVar[str] = "adapter"
    learning_rate: ClassVar[float] = 3e-4
    source: ClassVar[str] = "Houlsby et al. 2019, section 2.1; rate: the middle one of 3.2"
    summary: ClassVar[str] = "a bottleneck after attention and feed-forward, and the norms"

    size: int = 64
    after: Literal["both", "feed-forward"] = "both"

    def __post_init__(self) -> None:
        """Check the number."""
        if self.size < 1:
            raise OptionError(f"--method adapter: size must be at least 1; found {self.size}.")

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Put the adapters into the model.

        Raises:
            OptionError: it is not known where attention and feed-forward end in this family.
        """
        attention, feed_forward = _places(model)
        for name in [*feed_forward, *(attention if self.after == "both" else ())]:
            adapter = Bottleneck(model.config.hidden_size, self.size, generator)
            host = model.get_submodule(name)
            host.add_module("adapter", adapter.to(model.device))
            host.register_forward_hook(lambda host, inputs, output: host.adapter(output))
        norms = (part for part in model.modules() if "norm" in type(part).__name__.lower())
        of_norms = {id(value) for norm in norms for value in norm.parameters(recurse=False)}
        trained = {
            name: value
            for name, value in model.named_parameters()
            if ".adapter." in name or id(value) in of_norms
        }
        for value in trained.values():
            value.requires_grad_(True)
        return trained


class Bottleneck(nn.Module):
    """Module of `Adapter`."""

    def __init__(self, dim: int, size: int, generator: torch.Generator) -> None:
        """Draw what projects down; everything else is 0."""
        super().__init__()
        self.down = nn.Parameter(torch.randn(size, dim, generator=generator) * _SPREAD)
        self.down_bias = nn.Parameter(torch.zeros(size))
        self.up = nn.Parameter(torch.zeros(dim, size))
        self.up_bias = nn.Parameter(torch.zeros(dim))

    def forward(self, h: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
        """Return what is put through, and what the bottleneck makes of it."""
        inner = functional.gelu(functional.linear(h, self.down, self.down_bias))
        return h + functional.linear(inner, self.up, self.up_bias).to(h.dtype)


def _places(model: "PreTrainedModel") -> tuple[list[str], list[str]]:
    """Return the names of the modules at which attention and feed-forward end, one of each a block.

    Raises:
        OptionError: they are not known.
    """
    for ends in _OUTPUTS:
        patterns = [re.compile(rf"(.*\.)?\d+\.{re.escape(end)}") for end in ends]
        attention, feed_forward = (
            [name for name, _ in model.named_modules() if pattern.fullmatch(name)]
            for pattern in patterns
        )
        if len(attention) == len(feed_forward) == model.config.num_hidden_layers:
            return attention, feed_forward
    raise OptionError(
        "--method adapter: probekit does not know where attention and feed-forward end in the "
        f"blocks of {type(model).__name__}. Choose another method, such as lora:targets=linear."
    )
