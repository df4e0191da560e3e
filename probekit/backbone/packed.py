"""Linear layers of a frozen model with their weights packed for a CPU's matrix products, once."""

import platform

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D


class PackedLinear(nn.Module):
    """A linear layer that computes what ``torch.nn.Linear`` or transformers' ``Conv1D`` does.

    Those pack their weight anew in every call, or leave float32 to a library that is slow on some
    processors. In bfloat16 the results are the same bit by bit, in float32 up to rounding.

    Attributes:
        in_features: width of the rows that come in.
        out_features: width of those that go out.
        bias: as in the layer; None if it has none.
    """

    def __init__(self, layer: nn.Linear | Conv1D) -> None:
        """Pack the weight of ``layer``, which is not needed any more then."""
        super().__init__()
        self._turned = isinstance(layer, Conv1D)
        weight = layer.weight.t().contiguous() if self._turned else layer.weight
        self.out_features, self.in_features = weight.shape
        self.bias = layer.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    @property
    def weight(self) -> Tensor:
        """The layer's weight, unpacked in every call: some models read it beside the layer."""
        weight: Tensor = self._packed.to_dense()
        return weight.t() if self._turned else weight

    def forward(self, x: Float[Tensor, "*rows in_features"]) -> Float[Tensor, "*rows out_features"]:
        """Return x W^T + b."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return out


def pack_linear_layers(model: nn.Module) -> None:
    """Replace the linear layers of a frozen model on a CPU, one by one; gradients end there.

    Only where this machine has packed products; measured on x86, where oneDNN has them all.

    Layers of another class, even of one derived from ``torch.nn.Linear``, stay: they may do more.
    So do those with hooks or parts of their own, such as the adapter of a saved run.
    """
    measured = platform.machine().lower() in ("x86_64", "amd64")
    if not (measured and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return
    for name, layer in list(model.named_modules()):
        if type(layer) not in (nn.Linear, Conv1D):
            continue
        if layer._forward_hooks or layer._forward_pre_hooks or next(layer.children(), None):
            continue
        dtype = layer.weight.dtype
        half = dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if half or dtype == torch.float32:
            model.set_submodule(name, PackedLinear(layer))
