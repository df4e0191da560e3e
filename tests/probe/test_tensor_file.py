"""Files of tensors: the same bytes every time, and nothing in them that is not the library's."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

from probekit.probe.model_parts import FinalNorm, OutputHead, tensor_file

NORM = FinalNorm(kind="rmsnorm", eps=1e-5, weight=torch.arange(3.0))
HEAD = OutputHead(
    kind="masked", weight=torch.arange(8.0).reshape(4, 2), dense_weight=torch.eye(2),
    activation="gelu", norm_weight=torch.ones(2), norm_bias=torch.zeros(2), eps=1e-12,
)  # fmt: skip


@pytest.mark.parametrize("part", [NORM, HEAD], ids=["final norm", "output head"])
def test_the_same_values_are_the_same_bytes(part):
    # the library's own order is drawn anew in each call: of 24 two or three keys, not one the same
    assert len({part.to_file() for _ in range(24)}) == 1


@pytest.mark.parametrize("about", [{}, {"kind": "ä"}, {str(n): "x" * n for n in range(9)}])
def test_the_library_reads_what_was_written(tmp_path, about):
    tensors = {"b": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), "a": torch.ones(1)}
    data = tensor_file(tensors, about)
    (tmp_path / "file.safetensors").write_bytes(data)
    found = load(data)
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    with safe_open(tmp_path / "file.safetensors", "pt") as file:
        assert (file.metadata() or {}) == about
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert list(header["__metadata__"]) == sorted(about)
