"""Copies from the host to a device that nobody waits for."""

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor of the host on a device, without waiting for the device's queue.

    Only for memory that is not pinned: its bytes are taken before this returns.
    """
    return tensor.to(device, non_blocking=True)
