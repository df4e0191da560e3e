"""Virtual tokens before a text: prompts at the embeddings, and prefixes in every block."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from probekit.errors import BackboneError, OptionError, reason_of
from probekit.tuning.contract import Method, Values, blocks_of, drawing_from, known_to_peft
from probekit.tuning.packaging import Packaging, PeftAdapter

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Embedded = Float[Tensor, "batch time width"]


@dataclass(frozen=True, kw_only=True)
class VirtualTokens(Method):
    """A method that puts virtual tokens before every text, each of which takes a position.

    Attributes:
        length: how many.
    """

    length: int = 20

    def __post_init__(self) -> None:
        """Check the number."""
        if self.length < 1:
            raise OptionError(
                f"--method {self.name}: length must be at least 1; found {self.length}."
            )

    @property
    def positions(self) -> int:
        """All virtual tokens have a position."""
        return self.length


def _check_takes(method: str, model: "PreTrainedModel", argument: str, instead: str) -> None:
    """Refuse a model that can be given nothing of some name beside its token ids.

    Raises:
        OptionError: says what to do instead.
    """
    if argument not in _arguments(model):
        name = type(model).__name__
        raise OptionError(f"--method {method}: {name} takes no {argument}. {instead}")


def _seen_mask(
    mask: Int[Tensor, "batch time"] | None, count: int
) -> Int[Tensor, "batch longer"] | None:
    """Return an attention mask with some positions before it that all see; None stays None."""
    return None if mask is None else torch.cat([mask.new_ones(len(mask), count), mask], 1)


def put_before(model: "PreTrainedModel", count: int, embed: Callable[[Embedded], Embedded]) -> None:
    """Have a model read embeddings before those of each text, and return states of the text alone.

    Positions are counted from the first virtual token on, and all of them belong to the first of
    two texts.

    Args:
        model: takes ``inputs_embeds``, and is called with its ids.
        count: how many embeddings.
        embed: makes them (batch, count, width), given those of the texts.
    """

    def extend(
        model: "PreTrainedModel", args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[tuple[()], dict[str, Any]]:
        """Return the model's arguments with embeddings in place of ids."""
        longer = dict(named)
        ids = args[0] if args else longer.pop("input_ids")
        text = model.get_input_embeddings()(ids)
        longer["inputs_embeds"] = torch.cat([embed(text).to(text.dtype), text], 1)
        longer["attention_mask"] = _seen_mask(longer.get("attention_mask"), count)
        if (types := longer.get("token_type_ids")) is not None:
            longer["token_type_ids"] = torch.cat([types.new_zeros(len(types), count), types], 1)
        return (), longer

    def drop(model: "PreTrainedModel", args: tuple[Any, ...], output: Any) -> Any:
        """Return the model's output without the states of virtual tokens."""
        output.last_hidden_state = output.last_hidden_state[:, count:]
        if (states := output.hidden_states) is not None:
            # of the layers that nobody asked for there are none
            cut = (state[:, count:] if isinstance(state, Tensor) else state for state in states)
            output.hidden_states = tuple(cut)
        return output

    model.register_forward_pre_hook(extend, with_kwargs=True)
    model.register_forward_hook(drop)


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
    summary: ClassVar[str] = "trained keys and values before the text, in every block"

    of: Literal["keys", "states"] = "keys"

    @property
    def packaging(self) -> Packaging:
        """PEFT's own, of keys."""
        return PeftAdapter() if self.of == "keys" else Packaging()

    @property
    def blockwise(self) -> bool:
        """States may; keys lie in a cache that is left out there."""
        return self.of == "states"

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Give the model its virtual tokens.

        Raises:
            OptionError: it takes none.
            BackboneError: peft is not installed.
        """
        attach = self._attach_keys if self.of == "keys" else self._attach_states
        return attach(model, generator)

    def _attach_keys(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Have keys and values lie in the model's cache when it reads a text."""
        _check_takes(self.name, model, _cache_argument(model), f"Give {_INSTEAD}.")
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

    def _attach_states(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Have every block read states of the virtual tokens that are its own."""
        _check_takes(self.name, model, "inputs_embeds", "Choose another method, such as lora.")
        blocks = blocks_of(model, model.config.num_hidden_layers)
        if blocks is None:
            raise OptionError(
                f"--method prefix:of=states: the blocks of {type(model).__name__} are not in one "
                "list. Choose another method, such as prompt."
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
            f"--method prefix: {type(model).__name__} does not take keys from outside "
            f"({reason_of(error)}). Give {_INSTEAD}."
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

    recomputed = any(getattr(part, "gradient_checkpointing", False) for part in model.modules())
    if recomputed and model.training:  # transformers would drop the cache
        raise BackboneError(f"a prefix of keys is lost under gradient checkpointing: {_INSTEAD}")
    ids = args[0] if args else named["input_ids"]
    cache, prefix = DynamicCache(config=model.config), keys()
    for number, (key, value) in enumerate(prefix):
        cache.update(*(states.expand(len(ids), -1, -1, -1) for states in (key, value)), number)
    mask = _seen_mask(named.get("attention_mask"), prefix.shape[3])
    return args, {**named, _cache_argument(model): cache, "attention_mask": mask}


def _cache_argument(model: "PreTrainedModel") -> str:
    """Return what a model calls the keys and values before a text: newer ones say ``cache``."""
    return "cache" if "cache" in _arguments(model) else "past_key_values"


def _arguments(model: "PreTrainedModel") -> Mapping[str, Parameter]:
    return signature(type(model).forward).parameters


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
    if args:
        return (states, *args[1:]), dict(named)
    return (), {**named, "hidden_states": states}


@dataclass(frozen=True, kw_only=True)
class Prompt(VirtualTokens):
    """Embeddings of virtual tokens, drawn from the vocabulary's own (Lester et al. 2021, 2.1).

    As they are attended to, the states of the text are other ones from the start. ``length`` x
    width values.
    """

    name: ClassVar[str] = "prompt"
    learning_rate: ClassVar[float] = 1e-2
    source: ClassVar[str] = "Lester et al. 2021, section 2; rate: P-Tuning v2's code for RTE"
    summary: ClassVar[str] = "trained embeddings of virtual tokens before the text"

    @property
    def packaging(self) -> Packaging:
        """PEFT's own."""
        return PeftAdapter()

    def attach(self, model: "PreTrainedModel", generator: torch.Generator) -> Values:
        """Put the virtual tokens before what the model reads.

        Raises:
            OptionError: it reads token ids alone.
            BackboneError: peft is not installed.
        """
        _check_takes(self.name, model, "inputs_embeds", "Choose another method, such as lora.")
        words: Any = model.get_input_embeddings()  # of some class that has embedding_dim
        with drawing_from(generator, self.name):
            from peft import PromptEmbedding, PromptTuningConfig

            make: Any = PromptEmbedding  # which has no types
            config = PromptTuningConfig(
                num_virtual_tokens=self.length,
                token_dim=words.embedding_dim,
                num_transformer_submodules=1,
                # what peft asks for and does not find where a family calls it otherwise
                num_attention_heads=getattr(model.config, "num_attention_heads", 1),
                num_layers=getattr(model.config, "num_hidden_layers", 1),
                prompt_tuning_init="SAMPLE_VOCAB",
            )
            prompt = make(config, words)
        model.add_module("prompt", prompt)
        known_to_peft(model, config)
        weight: nn.Parameter = prompt.embedding.weight
        put_before(model, self.length, lambda text: weight.expand(len(text), -1, -1))
        return {"prompt.embedding.weight": weight}
