"""Normalisations that a run takes over from a saved head."""

import pytest
import torch

from probekit.errors import RecordError
from probekit.train.member import taken_over

CPU = torch.device("cpu")


def state(**tensors):
    return {f"normalization.{name}": value for name, value in tensors.items()}


def test_a_saved_standardisation_is_taken_over():
    kept = state(mean=torch.ones(2, 3), scale=torch.full((2, 3), 0.5))
    normalization = taken_over("standardize", kept | {"head.x": torch.zeros(1)}, (0, 4), CPU)
    z = torch.full((5, 2, 3), 5.0)  # (rows, layers, D)
    assert normalization.layers == (0, 4)
    assert torch.allclose(normalization(z), torch.full((5, 2, 3), 2.0), atol=1e-4)
    for unfitted in ("none", "layernorm", "final-norm"):
        assert taken_over(unfitted, kept, (0, 4), CPU) is None


def test_damaged_standardisations_are_refused():
    for kept in (
        state(scale=torch.ones(2, 3)),
        state(mean=torch.ones(2, 3), scale=torch.ones(2, 4)),
        state(mean=torch.ones(5, 3), scale=torch.ones(5, 3)),
    ):
        with pytest.raises(RecordError, match="saved head that this run starts from is damaged"):
            taken_over("standardize", kept, (0, 4), CPU)
