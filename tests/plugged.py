"""Plug-ins of third parties, as these would write them: some that work, some that do not."""

import torch
from torch import nn

NUMBER = 3


class Layered(nn.Module):
    """The layers one after another, and a hidden layer over them."""

    def __init__(self, n_layers: int, dim: int, hidden: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        self.map = nn.Sequential(nn.Linear(n_layers * dim, hidden), nn.ReLU(), nn.Dropout(dropout))

    def forward(self, z):
        return self.map(z.view(len(z), -1))


class Mixed(nn.Module):
    """A mixture that says its weights."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.zeros(n_layers))

    def forward(self, z):
        return torch.einsum("l,rld->rd", self.s.softmax(0), z)

    def layer_weights(self, z):
        return self.s.softmax(0)


class Rogue(nn.Module):
    """Rows that depend on each other."""

    def __init__(self, n_layers: int, dim: int) -> None:
        super().__init__()
        self.map = nn.Linear(dim, 4)

    def forward(self, z):
        return self.map(z.mean(1)).softmax(0)
