"""One-vs-rest decoder: a logistic regression per label, for texts with several labels or none."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from probekit.probe.decoders.contract import LabelSetDecoder, Objective, Solution
from probekit.probe.decoders.linear import Linear, LinearLayer


@dataclass(frozen=True, kw_only=True)
class OneVsRest(Linear):
    """logits = W dropout(h) + b, trained with the sigmoid cross entropy, summed over the labels."""

    name: ClassVar[str] = "one-vs-rest"
    source: ClassVar[str] = "binary relevance; scikit-learn's OneVsRestClassifier"
    summary: ClassVar[str] = "dropout and one linear layer, a sigmoid and a threshold per label"
    kinds: ClassVar[frozenset[str]] = frozenset({"multilabel"})

    @property
    def objective(self) -> Objective:
        """Cross entropy of each label, convex in weight and bias."""
        return "sigmoid"

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "OneVsRestDecoder":
        """Create the module; weight, then bias, are drawn as ``torch.nn.Linear`` would."""
        return OneVsRestDecoder(width, n_classes, self.dropout, generator)


class OneVsRestDecoder(LinearLayer, LabelSetDecoder):
    """Module of `OneVsRest`."""

    @torch.no_grad()
    def load(self, solution: Solution) -> None:
        """Take weight and bias."""
        self.weight.copy_(solution.weight)
        self.bias.copy_(solution.bias)
