"""Which dtype a backbone computes in."""

import pytest
import torch

from probekit.backbone import loading


@pytest.mark.parametrize("native", [True, False])
def test_auto_is_bfloat16_where_it_is_native(native, monkeypatch):
    monkeypatch.setattr(loading, "native_bfloat16", lambda device: native)
    expected = torch.bfloat16 if native else torch.float32
    assert loading.resolve_compute_dtype("auto") == expected


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_named_dtype_is_itself(name):
    assert loading.resolve_compute_dtype(name) == getattr(torch, name)
