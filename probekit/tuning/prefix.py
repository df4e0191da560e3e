"""Prefix tuning: virtual tokens before the text in every block (Li and Liang 2021)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from probekit.errors import BackboneError, OptionError, reason_of
from probekit.tuning.contract import blocks_of, drawing_from, known_to_peft
from probekit.tuning.packaging import Packaging, PeftAdapter
from probekit.tuning.virtual_tokens import VirtualTokens, check_takes, put_before, seen_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_INSTEAD = "--method prefix:of=states, or prompt"


@dataclass(frozen=True, kw_only=True)
class Prefix(VirtualTokens):
    """What attention sees before the text, in each of L blocks (P-Tuning v2, Liu et al. 2021).

    As it is attended to, the states of the text are other ones from the start.

    Attributes:
        of: ``keys``: a key and a value of each, 2 L ``length`` values of the width of keys; by
            peft, for families that take ``past_key_values``. ``states``: what a block reads, of
            which its own projections make both; L ``length`` D values, for every family.
    """

    name: ClassVar[str] = "prefix"
    learning_rate: ClassVar[float] = 1e-2
    source: ClassVar[str] = "Li and Liang 2021; Liu et al. 2021; rate: their code for RTE"
    summary: ClassVar[str] = "what attention sees before the text, in every block"

    of: Literal["keys", "states"] = "keys"

    @property
    def packaging(self) -> Packaging:
        """PEFT's own, of keys."""
        return PeftAdapter() if self.of == "keys" else Packaging()

    @property
    def blockwise(self) -> bool:
        """States may; keys lie in a cache that is left out there."""
        return self.of == "states"

    def attach(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Give the model its virtual tokens.

        Raises:
            OptionError: it takes none.
            BackboneError: peft is not installed.
        """
        attach = self._attach_keys if self.of == "keys" else self._attach_states
        return attach(model, generator)

    def _attach_keys(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Have keys and values lie in the model's cache when it reads a text."""
        check_takes(self.name, model, "past_key_values", f"Give {_INSTEAD}.")
        config, sizes = model.config, model.config.to_dict()
        heads = sizes.get("num_key_value_heads") or config.num_attention_heads
        width = sizes.get("head_dim") or config.hidden_size // config.num_attention_heads
        with drawing_from(generator, self.name):
            from peft import PrefixEncoder, PrefixTuningConfig

            make: Any = PrefixEncoder  # which has no types
            asked = PrefixTuningConfig(
                num_virtual_tokens=self.length,
                token_dim=heads * width,
                num_layers=config.num_hidden_layers,
                num_attention_heads=heads,
            )
            prefix = make(asked)
        known_to_peft(model, asked)
        model.add_module("prefix", prefix.to(model.device))
        weight: nn.Parameter = prefix.embedding.weight
        # as peft lays them out: a row per token, with the key and the value of each block in turn
        keys = partial(_blockwise, weight, config.num_hidden_layers, heads, width)
        _check_reads(model, keys)
        model.register_forward_pre_hook(partial(_with_cache, keys), with_kwargs=True)
        return {"prefix.embedding.weight": weight}

    def _attach_states(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Have every block read states of the virtual tokens that are its own."""
        check_takes(self.name, model, "inputs_embeds", "Choose another method, such as lora.")
        blocks = blocks_of(model, model.config.num_hidden_layers)
        if blocks is None:
            raise OptionError(
                f"--method prefix:of=states: the blocks of {type(model).__name__} do not lie in "
                "one list. Choose another method, such as prompt."
            )
        length, width = self.length, model.config.hidden_size
        prefixes = {}
        put_before(model, length, lambda text: text.new_zeros(len(text), length, text.shape[2]))
        for number, block in enumerate(blocks):
            drawn = torch.randn(length, width, generator=generator)
            prefix = nn.Parameter(drawn.to(model.device))
            model.register_parameter(f"prefix_{number}", prefix)
            block.register_forward_pre_hook(partial(_replace, prefix), with_kwargs=True)
            prefixes[f"prefix_{number}"] = prefix
        return prefixes


@torch.no_grad()
def _check_reads(model: "PreTrainedModel", keys: Callable[[], Tensor]) -> None:
    """Refuse a model that reads no keys of such a form: heads that share them, or other caches.

    Raises:
        OptionError: the model fails on them.
    """
    ids = torch.arange(2, device=model.device)[None] % model.config.vocab_size
    try:
        _, arguments = _with_cache(keys, model, (), {"input_ids": ids})
        model(**arguments)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise OptionError(
            f"--method prefix: {type(model).__name__} reads no such keys ({reason_of(error)}). "
            f"Give {_INSTEAD}."
        ) from error


def _blockwise(
    weight: Float[Tensor, "tokens values"], blocks: int, heads: int, width: int
) -> Float[Tensor, "blocks two heads tokens width"]:
    """Return the key and the value of each block's virtual tokens."""
    return weight.view(len(weight), blocks, 2, heads, width).permute(1, 2, 3, 0, 4)


def _with_cache(
    keys: Callable[[], Tensor],
    model: "PreTrainedModel",
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a model's arguments with a cache that holds the prefix."""
    from transformers import DynamicCache

    if model.is_activation_checkpointing and model.training:  # transformers would drop the cache
        raise BackboneError(f"a prefix of keys is lost under gradient checkpointing: {_INSTEAD}")
    ids = args[0] if args else named["input_ids"]
    cache, prefix = DynamicCache(config=model.config), keys()
    for number, (key, value) in enumerate(prefix):
        cache.update(*(states.expand(len(ids), -1, -1, -1) for states in (key, value)), number)
    mask = seen_mask(named.get("attention_mask"), prefix.shape[3])
    return args, {**named, "past_key_values": cache, "attention_mask": mask}


def _replace(
    prefix: Float[Tensor, "tokens dim"],
    block: nn.Module,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a block's arguments with its own states of the virtual tokens."""
    states = args[0] if args else named["hidden_states"]
    virtual = prefix.expand(len(states), -1, -1).to(states.dtype)
    states = torch.cat([virtual, states[:, len(prefix) :]], 1)
    return (
        ((states, *args[1:]), dict(named)) if args else (args, {**named, "hidden_states": states})
    )
