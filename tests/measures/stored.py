"""Rows in memory that are read as an array of an entry is."""

from types import SimpleNamespace

import numpy as np
import torch

from probekit.measures.measured_rows import MeasuredRows


class Stored:
    """A float array (layers, rows, dim) with the reading side of `FeatureArray`."""

    def __init__(self, values):
        self.values = torch.as_tensor(values)
        self.layers = list(range(len(self.values)))
        self.dim = self.values.shape[2]
        self.spec = SimpleNamespace(name="words")

    def read(self, rows, layers=None):
        chosen = self.layers if layers is None else list(layers)
        return self.values[chosen][:, torch.as_tensor(rows)].permute(1, 0, 2)


def measured(values, block=7):
    """All rows of some layers (layers, rows, dim), read in blocks."""
    array = Stored(values)
    n = array.values.shape[1]
    return MeasuredRows(array=array, rows=np.arange(n), of_rows=n, block=block, where="here")
