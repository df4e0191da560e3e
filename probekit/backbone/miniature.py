"""A small copy of a model: its width and its kinds of blocks, with few of them and random weights.

What a model does (which positions see each other, what its last layer comes from) is learned by
running the copy: no weights need be read, and nothing that is tried changes the model itself.
"""

import copy

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone.architecture import build_model, count_parameters
from probekit.base.numbers.seeding import seeded

_VOCABULARY = 128
_INNER = (
    "intermediate_size", "moe_intermediate_size", "ffn_dim", "encoder_ffn_dim", "n_inner", "d_ff",
    "hidden_dim", "d_inner",
)  # fmt: skip
"""Widths inside a block that its output does not show."""

_INNER_WIDTH = 64
_TRIAL = 4
_NOISE = 1_000_003  # numbers that are drawn once and repeated; a prime is no multiple of a width
_STEP = 7919  # by which they are turned for the next tensor
_BLOCKS = "num_hidden_layers"
_UNUSED = ("decoder_layers", "num_decoder_layers")
"""Blocks of the half of an encoder-decoder that is not read."""

_WHOLE = 1_000_000_000
"""Parameters of the largest model that is copied whole where its small copy does not run."""


def build_miniature(
    config: PretrainedConfig, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """Build the smallest copy that runs, on the CPU, frozen, in evaluation mode.

    Every parameter is drawn away from zero, since zeros would hide what a module does. torch's
    global random state is left as it was.

    Raises:
        Exception: whatever transformers raises where it cannot build the model.
    """
    with seeded(0), torch.device("cpu"):
        try:
            model = build_model(small_config(config), dtype)
            model(input_ids=torch.arange(model.config.vocab_size)[None, :_TRIAL])
        except Exception:  # some families tie these sizes to others
            if count_parameters(config) > _WHOLE:
                raise
            model = build_model(config, dtype)
        shake(model)
    return model


def shake(model: nn.Module) -> None:
    """Add noise to all weights: zeros and ones of a fresh model would hide what they multiply."""
    # twice, so that a turn of it by any step is a view, and small weights copy none of it
    noise, start = torch.randn(_NOISE).repeat(2), 0
    means = [buffer for name, buffer in model.named_buffers() if name.endswith("running_mean")]
    for tensor in (*model.parameters(), *means):
        if tensor.is_floating_point():
            start = (start - _STEP) % _NOISE
            turned = noise[start : start + _NOISE]
            if tensor.numel() > _NOISE:
                turned = turned.repeat(-(-tensor.numel() // _NOISE))
            tiled = turned[: tensor.numel()].view(tensor.shape)
            scale = 0.1 if tensor.dim() < 2 else min(0.1, tensor.shape[-1] ** -0.5)
            tensor.add_(tiled, alpha=scale)


def small_config(config: PretrainedConfig) -> PretrainedConfig:
    """Return a copy of a configuration with few blocks, a small vocabulary and inner widths."""
    small = few_blocks(config)
    given = small.to_dict()
    for name in _INNER:
        width = given.get(name)
        if isinstance(width, int) and width > _INNER_WIDTH:
            setattr(small, name, _INNER_WIDTH)
    small.vocab_size = min(small.vocab_size, _VOCABULARY)
    for name, value in given.items():
        if name.endswith("_token_id") and isinstance(value, int) and value >= small.vocab_size:
            setattr(small, name, value % small.vocab_size)
    return small


def few_blocks(config: PretrainedConfig) -> PretrainedConfig:
    """Return a copy with the first block of every kind, and the last one.

    Kinds are told apart by whatever the configuration lists per block.
    """
    count = config.num_hidden_layers
    listed = {
        name: list(values)
        for name, values in vars(config).items()
        if isinstance(values, list | tuple) and len(values) == count
    }
    kinds = list(zip(*listed.values(), strict=True)) or [()] * count
    blocks = sorted({0, count - 1} | {kinds.index(kind) for kind in kinds})
    few = copy.deepcopy(config)
    for name, values in listed.items():
        setattr(few, name, [values[block] for block in blocks])
    given = few.to_dict()
    # ProphetNet sets its halves apart
    setattr(few, "num_encoder_layers" if "num_encoder_layers" in given else _BLOCKS, len(blocks))
    for name in set(_UNUSED) & given.keys():
        setattr(few, name, 1)
    return few


def special_ids(config: PretrainedConfig) -> set[int]:
    """Return the ids of the tokens that a configuration gives a role: padding, end of text, ..."""
    roles = [value for name, value in config.to_dict().items() if name.endswith("_token_id")]
    return {i for ids in roles for i in (ids if isinstance(ids, list) else [ids]) if i is not None}
