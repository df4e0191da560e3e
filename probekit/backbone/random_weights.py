"""The baseline of a backbone that learned nothing: its own architecture with random weights."""

from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModel, PreTrainedModel

from probekit.backbone.facts import Inspection, without_pooler
from probekit.backbone.quiet import quiet_transformers

_FROM_CONFIG: Callable[..., Any] = AutoModel.from_config


def draw_model(inspection: Inspection, dtype: torch.dtype, seed: int) -> PreTrainedModel:
    """Build a model without head and pooler, as transformers initialises it before training.

    Weights are drawn on the CPU in float32 and then cast, so that they depend on the seed alone.
    torch's global random state is left as it was.

    Args:
        inspection: of the model; no weights of it are read.
        dtype: of the result.
        seed: of torch's CPU generator.
    """
    config = inspection.config
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed GPUs as well
        model = _FROM_CONFIG(config, dtype=torch.float32, **without_pooler(config))
    model = model.to(dtype).eval().requires_grad_(False)
    assert isinstance(model, PreTrainedModel)
    return model
