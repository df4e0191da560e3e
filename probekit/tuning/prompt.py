"""Prompt tuning: virtual tokens before the text, at the embeddings (Lester et al. 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from probekit.tuning.contract import drawing_from, known_to_peft
from probekit.tuning.packaging import Packaging, PeftAdapter
from probekit.tuning.virtual_tokens import VirtualTokens, check_takes, put_before

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class Prompt(VirtualTokens):
    """Embeddings of virtual tokens, drawn from the vocabulary's own (Lester et al. 2021, 2.1).

    As they are attended to, the states of the text are other ones from the start. ``length`` x
    width values.
    """

    name: ClassVar[str] = "prompt"
    learning_rate: ClassVar[float] = 1e-2
    source: ClassVar[str] = "Lester et al. 2021, section 2; rate: P-Tuning v2's code for RTE"
    summary: ClassVar[str] = "the embeddings of virtual tokens before the text"

    @property
    def packaging(self) -> Packaging:
        """PEFT's own."""
        return PeftAdapter()

    def attach(
        self, model: "PreTrainedModel", generator: torch.Generator
    ) -> Mapping[str, nn.Parameter]:
        """Put the virtual tokens before what the model reads.

        Raises:
            OptionError: it reads token ids alone.
            BackboneError: peft is not installed.
        """
        check_takes(self.name, model, "inputs_embeds", "Choose another method, such as lora.")
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
