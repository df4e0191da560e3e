"""What decoders share that classify each row alone: cross entropy and the largest logit."""

from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from probekit.probe.decoders.contract import IGNORED, UNSEEN_LOSS, Decoder


class Classifier(Decoder):
    """A decoder whose rows are independent: softmax over the logits."""

    def loss(
        self,
        logits: Float[Tensor, "rows classes"],
        targets: Int64[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean cross entropy over the rows whose target is not -100, 0 without any."""
        total = functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
        return total / (targets != IGNORED).sum().clamp(min=1)

    def row_losses(
        self,
        logits: Float[Tensor, "rows classes"],
        targets: Int64[Tensor, " rows"],
        offsets: Int64[Tensor, " bounds"] | None = None,
    ) -> Float[Tensor, " rows"]:
        """Return the cross entropy of each row in nats."""
        unseen = targets >= self.n_classes
        known = targets.masked_fill(unseen, IGNORED)
        losses = functional.cross_entropy(logits, known, ignore_index=IGNORED, reduction="none")
        return losses.masked_fill(unseen, UNSEEN_LOSS)

    def predict(
        self,
        logits: Float[Tensor, "rows classes"],
        offsets: Int64[Tensor, " bounds"] | None = None,
    ) -> Int64[Tensor, " rows"]:
        """Return the class with the largest logit in each row."""
        return logits.argmax(1)
