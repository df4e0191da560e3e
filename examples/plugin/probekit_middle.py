"""A plug-in package: the head ``middle``, which reads the middle half of the layers it is given."""

from torch import Tensor, nn


class Middle(nn.Module):
    """Mean of the middle layers, through a hidden layer."""

    def __init__(self, n_layers: int, dim: int, hidden: int = 64) -> None:
        super().__init__()
        self.first, self.stop = n_layers // 4, n_layers - n_layers // 4
        self.hidden = nn.Linear(dim, hidden)

    def forward(self, z: Tensor) -> Tensor:
        """Map (rows, layers, dim) to (rows, hidden)."""
        return self.hidden(z[:, self.first : self.stop].mean(1)).relu()

    def layer_weights(self, z: Tensor) -> Tensor:
        """Say what each layer counts, (layers,)."""
        weights = z.new_zeros(z.shape[1])
        weights[self.first : self.stop] = 1 / (self.stop - self.first)
        return weights
