"""Extra layers: new transformer blocks of the backbone's own kind on top of the frozen ones."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.hooks import RemovableHandle

from probekit.base.numbers import seeded
from probekit.errors import OptionError, reason_of
from probekit.probe.heads.contract import BackboneFacts, HeadSpec, Reads, SubwordHead
from probekit.probe.model_parts import OUTPUTS, PROVENANCE

_PLAIN = 512
"""Longest windows, in subwords, whose attention weights are kept for the backward pass on a CPU."""


class BlockStack(nn.Module):
    """Blocks that turn the states of whole windows into new ones of the same width.

    They always run without dropout: that of transformers draws from the global generator, which
    heads trained side by side share.

    Attributes:
        model: a model of the backbone's family whose embeddings and final norm do nothing.
        dim: width of the states.
    """

    def __init__(self, model: nn.Module, dim: int) -> None:
        """Keep the model, in evaluation mode."""
        super().__init__()
        self.model = model
        self.dim = dim
        self.train()

    def train(self, mode: bool = True) -> "BlockStack":
        """Switch the mode; the blocks' dropout stays off."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(
        self, hidden: Float[Tensor, "T dim"], lengths: Int64[Tensor, " windows"]
    ) -> Float[Tensor, "T dim"]:
        """Return the last block's states.

        Args:
            hidden: states of every subword, window after window, unpadded.
            lengths: subwords of each window; they sum to T. A window does not see the others.
        """
        hidden = hidden.float() if hidden.element_size() < 4 else hidden
        # the blocks lie in the model's first list of modules
        blocks = next(part for part in self.model.modules() if isinstance(part, nn.ModuleList))
        outputs, places = [], []
        for group in group_by_length(lengths.tolist(), hidden.device):
            batch = hidden.index_select(0, group.take.flatten()).view(*group.take.shape, -1)
            with _attention(batch), _entering(blocks[0], batch):
                output: Any = self.model(
                    inputs_embeds=batch, attention_mask=group.mask, return_dict=True
                )
            states = output.last_hidden_state
            outputs.append(states.flatten(0, 1).index_select(0, group.real))
            places.append(group.take.flatten().index_select(0, group.real))
        if not outputs:
            return hidden
        return torch.cat(outputs).index_select(0, torch.cat(places).argsort())


def _entering(block: nn.Module, states: Float[Tensor, "windows time dim"]) -> RemovableHandle:
    """Hand states to a block as they are, inside of a ``with`` block.

    Some families multiply what comes in place of embeddings (Granite), or add positions to it.
    """

    def replace(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if args:
            return (states, *args[1:]), named
        return args, named | {next(iter(signature(module.forward).parameters)): states}

    return block.register_forward_pre_hook(replace, with_kwargs=True)


def _attention(batch: Float[Tensor, "windows time dim"]) -> AbstractContextManager[None]:
    """Return a context in which attention is computed in the way that suits the batch.

    On a CPU the backward pass of PyTorch's fused attention alone takes almost as long as all the
    products of a block; attention with its weights written out has no such pass. Its memory grows
    with the square of the length, so long windows keep the fused one.
    """
    trained = torch.is_grad_enabled() and batch.device.type == "cpu"
    return sdpa_kernel(SDPBackend.MATH) if trained and batch.shape[1] <= _PLAIN else nullcontext()


_PASS = {"cpu": 64}
_DEFAULT_PASS = 4096
"""Padded subwords that cost as much as one more pass through a block, by device.

16 sentences of CoNLL length, 768 wide, one BERT or MPNet block, forward and backward on one core:
one padded batch takes 276 to 439 ms in float32 and 103 to 125 in bfloat16, these groups 218 to 336
and 78 to 84.
"""

LARGEST = 16_384
"""Subwords of one group, padding included: what bounds memory when thousands of windows come."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Some windows as one batch, padded on the right.

    Attributes:
        take: position among all subwords for each place of the batch; padding repeats the
            window's last subword.
        mask: 1 for real subwords and 0 for padding; None where nothing is padded.
        real: places of the real subwords in the flattened batch, ascending.
    """

    take: Int64[Tensor, "windows time"]
    mask: Int64[Tensor, "windows time"] | None
    real: Int64[Tensor, " real"]


def group_by_length(lengths: Sequence[int], device: torch.device) -> list[Group]:
    """Return batches that cover every window once, the longest first.

    A batch ends where its padding would cost more than another pass, or at ``LARGEST`` subwords
    (one longer window goes alone); windows without subwords are left out.
    """
    # Windows of 9, 60 and 58 subwords on a CPU, where 64 padded subwords cost as much as a pass:
    #
    #   order    1 2 0           the longest first
    #   window 1 opens a group;  2 joins it with 60 - 58 = 2 padded subwords;  0 would need 51
    #   more, 53 of 64: it joins too, and the three are one batch of 3 x 60.
    #
    # With another window of 9 subwords the padding would be 104, so that one opens a new group.
    sizes = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    allowed = _PASS.get(device.type, _DEFAULT_PASS)
    order = [int(w) for w in np.argsort(-sizes, kind="stable") if sizes[w]]
    groups: list[list[int]] = []
    padding = 0
    for window in order:
        longest = int(sizes[groups[-1][0]]) if groups else 0
        padding += longest - int(sizes[window])
        if not groups or padding > allowed or longest * (len(groups[-1]) + 1) > LARGEST:
            groups.append([])
            padding = 0
        groups[-1].append(window)
    return [_group(starts[members], sizes[members], device) for members in groups]


def _group(
    starts: Int64[np.ndarray, " windows"],
    sizes: Int64[np.ndarray, " windows"],
    device: torch.device,
) -> Group:
    # Windows of 3 and 2 subwords, whose subwords begin at 7 and 0:
    #
    #   real    1 1 1       take   7 8 9      padding repeats a window's last subword, 1, so
    #           1 1 0              0 1 1      that it is a state like any other
    #   places of real ones in the flattened batch: 0 1 2 3 4
    #
    # flattened states [real places] are those of subwords 7 8 9 0 1; `forward` sorts them.
    places = np.arange(sizes.max())
    real = places < sizes[:, None]
    take = starts[:, None] + np.minimum(places, sizes[:, None] - 1)
    mask = None if real.all() else torch.from_numpy(real.astype(np.int64)).to(device)
    return Group(
        take=torch.from_numpy(take).to(device),
        mask=mask,
        real=torch.from_numpy(np.flatnonzero(real)).to(device),
    )


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

    def build(self, layers: tuple[int, ...], dim: int, generator: torch.Generator) -> SubwordHead:
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


class ExtraLayersHead(SubwordHead):
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
    return BlockStack(model, made.hidden_size)


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
