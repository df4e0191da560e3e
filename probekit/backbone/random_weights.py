"""The baseline of a backbone that learned nothing: its own architecture with random weights."""

from typing import Any

import torch
from transformers import PreTrainedModel

from probekit.backbone.facts import Inspection
from probekit.backbone.model_class import build_model, without_pooler
from probekit.backbone.quiet import quiet_transformers
from probekit.base.numbers.seeding import seeded


def draw_model(inspection: Inspection, dtype: torch.dtype, seed: int) -> PreTrainedModel:
    """Build a model without head and pooler, as transformers initialises it before training.

    Weights are drawn on the CPU in float32, so that they depend on the seed alone, and then loaded
    as a checkpoint's would be: what is no weight (rotary frequencies) keeps the dtype that it has
    in a pretrained model. torch's global random state is left as it was.

    Args:
        inspection: of the model; no weights of it are read.
        dtype: of the result.
        seed: of torch's CPU generator.
    """
    config = inspection.config
    with quiet_transformers(), seeded(seed):
        drawn = build_model(config)
        if dtype == torch.float32:
            return drawn
        load: Any = type(drawn).from_pretrained
        weights, options = drawn.state_dict(), without_pooler(config)
        model: PreTrainedModel = load(
            None, config=config, state_dict=weights, dtype=dtype, **options
        )
    return model.train(False).requires_grad_(False)
