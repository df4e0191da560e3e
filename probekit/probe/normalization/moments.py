"""Mean and deviation per layer and channel, in one pass over blocks of rows."""

from jaxtyping import Float
from torch import Tensor


class Moments:
    """Merges block after block (Chan, Golub and LeVeque 1979).

    Inside a block squares are summed around the block's own mean in float32; blocks are merged in
    float64. So rows with a large mean and a small deviation keep their digits, and no block is
    copied to float64.
    """

    def __init__(self) -> None:
        """Start without rows."""
        self.count = 0
        self._mean: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, block: Float[Tensor, "rows layers dim"]) -> None:
        """Take in some rows, in any floating dtype; an empty block changes nothing."""
        rows = block.shape[0]
        if rows == 0:
            return
        z = block.float() if block.element_size() < 4 else block
        about = z.mean(0)
        centred = z - about
        # The corrected two-pass sum: rest is what rounding left of the mean.
        rest = centred.mean(0).double()
        mean = about.double() + rest
        squares = centred.square_().sum(0).double() - rows * rest.square()
        if self._mean is None or self._squares is None:
            self.count, self._mean, self._squares = rows, mean, squares
            return
        total = self.count + rows
        shift = mean - self._mean
        self._squares = self._squares + squares + shift.square() * (self.count * rows / total)
        self._mean = self._mean + shift * (rows / total)
        self.count = total

    def result(self) -> tuple[Float[Tensor, "layers dim"], Float[Tensor, "layers dim"]]:
        """Return mean and population deviation in float64; call after at least one row."""
        assert self._mean is not None and self._squares is not None
        return self._mean, (self._squares.clamp(min=0) / self.count).sqrt()
