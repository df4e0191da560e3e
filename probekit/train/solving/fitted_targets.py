"""What a solver fits to: the drawn classes, numbered anew, or numbers in standard units."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from probekit.features import FeatureView
from probekit.probe.decoders.contract import Solution
from probekit.probe.decoders.regression import RegressionDecoder
from probekit.probe.fitters.chains import ChainLoss
from probekit.probe.fitters.losses import Binary, Loss, Softmax, Squares
from probekit.train.member import Member
from probekit.train.sampling import check_two_classes


class FittedTargets:
    """What is fitted: the classes that were drawn, or numbers in standard units.

    Attributes:
        loss: of the drawn rows.
        values: number of each row's class among those that were drawn, or its number.
    """

    def __init__(self, member: Member, view: FeatureView, device: torch.device) -> None:
        """Look at the drawn targets.

        Raises:
            OptionError: one class was drawn.
        """
        self._decoder = member.probe.decoder
        targets = torch.from_numpy(view.targets).to(device)
        self._present = targets[:0]
        self.loss: Loss
        if isinstance(self._decoder, RegressionDecoder):
            self.values = (targets - self._decoder.mean) / self._decoder.deviation
            self.loss = Squares(self.values)
            return
        check_two_classes(view)
        self._present, self.values = torch.unique(targets, return_inverse=True)
        self._chain = member.spec.decoder.objective == "chain"
        self.loss = self._of(view, self.values)

    def _of(self, view: FeatureView, values: Int64[Tensor, " n"]) -> Loss:
        n_classes = len(self._present)
        if self._chain:
            return ChainLoss(values, n_classes, torch.from_numpy(view.offsets).to(values.device))
        return Binary(values) if n_classes == 2 else Softmax(values, n_classes)

    def elsewhere(self, view: FeatureView) -> tuple[Loss, Float[Tensor, "1 n"]]:
        """Return the loss of the examples of a split whose classes were all drawn.

        Beside it the weight of each row in their mean: the cost of a class that was not drawn is
        no different from strength to strength.
        """
        targets = torch.from_numpy(view.targets).to(self._present.device)
        values = torch.searchsorted(self._present, targets).clamp(max=len(self._present) - 1)
        known = self._present[values] == targets
        # Classes 1 and 4 were drawn (`present`), and a split has 4 2 1: places 1 1 0 are those of
        # 4 4 1, so that its second row, of a class that was not drawn, does not count.
        if self._chain:  # a sentence counts as a whole
            missed = np.concatenate([[0], np.cumsum(~known.cpu().numpy())])[view.offsets]
            shown = np.repeat(np.diff(missed) == 0, view.lengths)
            known = torch.from_numpy(shown).to(targets.device)
        weights = known.float()
        return self._of(view, values), (weights / weights.sum().clamp(min=1)).unsqueeze(0)

    def named(self, predicted: Tensor) -> np.ndarray:
        """Return predictions as metrics take them: class numbers, or numbers in their unit."""
        if isinstance(self._decoder, RegressionDecoder):
            values = predicted.double() * self._decoder.deviation + self._decoder.mean
            return np.asarray(values.cpu().numpy())
        return np.asarray(self._present[predicted].cpu().numpy())

    def load(
        self,
        weight: Float64[Tensor, "k w"],
        bias: Float64[Tensor, " k"],
        extra: Float64[Tensor, " extra"],
    ) -> None:
        """Put a solution for rows as they came into the member's decoder."""
        if isinstance(self.loss, Binary):
            weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
        chain: Sequence[Tensor] = ()
        if isinstance(self.loss, ChainLoss):
            chain = [part[0] for part in self.loss.split(extra.unsqueeze(0))]
        found = Solution(weight=weight, bias=bias, present=self._present, chain=chain)
        self._decoder.load(found)
