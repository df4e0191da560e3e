from .contract import (
    BackboneFacts,
    FusionHead,
    HeadInput,
    HeadSpec,
    LayerWeights,
    Reads,
    RowHead,
    TokenHead,
)
from .named import HEADS, head_from_json
from .tokens import TokenStates

__all__ = [
    "HEADS",
    "BackboneFacts",
    "FusionHead",
    "HeadInput",
    "HeadSpec",
    "LayerWeights",
    "Reads",
    "RowHead",
    "TokenHead",
    "TokenStates",
    "head_from_json",
]
