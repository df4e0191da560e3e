"""Extra layers: new transformer blocks of the backbone's own kind on top of the frozen ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from probekit.base.numbers.seeding import seeded
from probekit.errors import OptionError, reason_of
from probekit.probe.heads.block_stack import BlockStack
from probekit.probe.heads.contract import BackboneFacts, HeadSpec, Reads, TokenHead
from probekit.probe.model_parts.kept import OUTPUTS, PROVENANCE


@dataclass(frozen=True, kw_only=True)
class ExtraLayers(HeadSpec):
    """h = the word's row of n new blocks, run over the last layer's subwords of its window.

    The blocks are trained without dropout.

    Attributes:
        n: number of new blocks; None is the paper's 1 for up to 12 blocks, 2 above.
        config: the backbone's configuration; `bind` fills it in.
    """

    n: int | None = field(default=None, metadata={"unset": "(1 up to 12 blocks, 2 beyond)"})
    config: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)

    name: ClassVar[str] = "extra-layers"
    default_layers: ClassVar[str] = "-1"
    learning_rate: ClassVar[float] = 1e-3
    source: ClassVar[str] = 'DWAtt, Table 2 "Base+n" and R26'
    summary: ClassVar[str] = "new transformer blocks over the last layer's subwords"
    formula: ClassVar[str] = "block_n(... block_1(z_L))"
    reads: ClassVar[Reads] = "tokens"

    def __post_init__(self) -> None:
        """Check the number of blocks."""
        if self.n is not None and self.n < 1:
            raise OptionError(f"extra-layers: n must be 1 or more, found {self.n}.")

    def bind(self, facts: BackboneFacts) -> Self:
        """Return the spec with the backbone's configuration, and the paper's n if none is set."""
        n = self.n if self.n is not None else 1 if facts.n_blocks <= 12 else 2
        return replace(self, n=n, config=essential(facts.config))

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> TokenHead:
        """Create the module; the blocks start as transformers would start the backbone's own.

        Raises:
            OptionError: the spec is not bound to a backbone, or the backbone's blocks cannot stand
                alone.
        """
        if self.n is None or self.config is None:
            raise OptionError(
                "extra-layers: the blocks are those of a backbone; call bind(facts) before build."
            )
        return ExtraLayersHead(layers, dim, self.n, self.config, generator)


class ExtraLayersHead(TokenHead):
    """Module of `ExtraLayers`."""

    def __init__(
        self,
        layers: tuple[int, ...],
        dim: int,
        n: int,
        config: Mapping[str, Any],
        generator: torch.Generator,
    ) -> None:
        """Build the blocks."""
        super().__init__(layers, dim)
        self.blocks = build_blocks(config, n, generator)
        if self.blocks.dim != dim:
            raise OptionError(
                f"extra-layers: the states have width {dim}, but the backbone's configuration "
                f"says {self.blocks.dim}."
            )

    def transform(
        self, hidden: Float[Tensor, "T dim"], lengths: Int64[Tensor, " windows"]
    ) -> Float[Tensor, "T width"]:
        """Return the blocks' states of every subword; products run in the autocast dtype."""
        return self.blocks(hidden, lengths)


_FINAL_NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f")


class _Given(nn.Module):
    """Embeddings that hand on the states they are given."""

    def forward(
        self, *arguments: Any, inputs_embeds: Tensor | None = None, **options: Any
    ) -> Tensor:
        # DistilBERT passes ids and states by position.
        return arguments[1] if inputs_embeds is None else inputs_embeds


class _Zero(nn.Module):
    """Position embeddings that add nothing."""

    def forward(self, position_ids: Tensor) -> Tensor:
        return torch.zeros((), device=position_ids.device)


def build_blocks(config: Mapping[str, Any], n: int, generator: torch.Generator) -> BlockStack:
    """Return n fresh blocks of the backbone's own class, with what they need beside them.

    transformers builds the whole model from the configuration; its embeddings, final norm and
    pooler are then taken out. So attention masks, rotary embeddings and MPNet's relative position
    bias (a parameter of its own here) are the family's, and so is the start of every weight.

    Args:
        config: the backbone's configuration, as its ``config.json`` holds it.
        n: number of blocks, 1 or more.
        generator: decides the weights, on the CPU; the global one is left as it was.

    Raises:
        OptionError: not one of ``FAMILIES``, or a configuration that transformers refuses.
    """
    from transformers import AutoModel
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    made = block_config(config, n)
    able = getattr(MODEL_MAPPING[type(made)], "_supports_sdpa", False)
    make: Any = AutoModel.from_config
    with seeded(int(torch.randint(2**62, (1,), generator=generator, device="cpu"))):
        model = make(made, dtype=torch.float32, attn_implementation="sdpa" if able else "eager")
    _strip(model)
    return BlockStack(model, made.hidden_size)


def _strip(model: Any) -> None:
    """Take out embeddings, final norm and pooler."""
    if hasattr(model, "embeddings"):
        model.embeddings = _Given()
    else:
        model.set_input_embeddings(nn.Identity())
    if hasattr(model, "wpe"):
        model.wpe = _Zero()
    if hasattr(model, "pooler"):
        model.pooler = None
    for name in _FINAL_NORMS:
        if hasattr(model, name):
            setattr(model, name, nn.Identity())


FAMILIES = (
    "bert", "camembert", "cohere", "deberta-v2", "distilbert", "ernie", "falcon", "gemma",
    "gemma2", "gemma3_text", "gpt2", "gpt_neox", "gptj", "granite", "llama", "mistral", "mpnet",
    "olmo", "olmo2", "phi3", "qwen2", "qwen3", "roberta", "stablelm", "xlm-roberta",
)  # fmt: skip
"""Kinds of models (``model_type``) whose blocks stand alone; the tests prove it for each one.

A family fits if it is a stack of equal blocks, and runs from ``inputs_embeds``. ModernBERT (its
first block has no norm), ALBERT (one shared block) and GPT-Neo (kinds alternate) do not fit.
"""

_TOKENS = {
    "bos_token_id", "cls_token_id", "eos_token_id", "mask_token_id", "pad_token_id",
    "sep_token_id", "unk_token_id", "vocab_size",
}  # fmt: skip
_ELSEWHERE = PROVENANCE | OUTPUTS | _TOKENS | {"quantization_config"}
"""Entries that do not shape a block; its weights are float32 whatever the backbone's are."""


def essential(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without what does not shape a block.

    Two copies of one model give the same, wherever they lie. (Another version of transformers may
    have further entries.)
    """
    return {name: value for name, value in config.items() if name not in _ELSEWHERE}


def block_config(config: Mapping[str, Any], n: int) -> Any:
    """Return transformers' configuration of a model of the same kind with n blocks.

    Where blocks differ by depth (sliding and full attention), these are the kinds of the last n.
    Its embeddings are as small as possible, since nobody uses them.

    Raises:
        OptionError: not one of ``FAMILIES``, or transformers refuses the configuration.
    """
    from transformers import AutoConfig

    options = essential(config)
    family = str(options.pop("model_type", ""))
    if family not in FAMILIES:
        raise OptionError(
            f"extra-layers: a backbone of the family {family or 'unknown'!r} cannot lend its "
            f"blocks; these can: {', '.join(FAMILIES)}."
        )
    try:
        made = AutoConfig.for_model(family, **options)
    except Exception as error:  # every configuration class has its own errors
        raise OptionError(
            f"extra-layers: transformers cannot read this {family} backbone's configuration "
            f"({reason_of(error)})."
        ) from error
    kinds = getattr(made, "layer_types", None)
    if kinds:
        made.layer_types = (list(kinds) * n)[-n:]
    made.num_hidden_layers = n
    made.vocab_size, made.pad_token_id = 2, 0  # MPNet's padding is always 1
    made.use_cache = False
    return made
