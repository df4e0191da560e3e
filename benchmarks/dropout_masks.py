"""Claim 20: dropout masks from sixteen random bits per element against ``bernoulli_``.

Masks of one batch of mpnet-base (232 rows, 768 wide), from a generator of their own.

    python benchmarks/dropout_masks.py
"""

from collections.abc import Callable

import torch
from measure import alternate, at_least, report, timed
from subjects import parser
from torch import Tensor

from probekit.probe.decoders.contract import dropout_mask

ROWS, DIM = 232, 768
RATE = 0.1
STEPS = 100
AIM = 2.0


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    device = torch.device(args.device)
    generator = torch.Generator(device).manual_seed(0)
    like = torch.empty(ROWS, DIM, device=device)

    def steps(draw: Callable[[Tensor, float, torch.Generator], Tensor]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(STEPS):
                mask = draw(like, RATE, generator)
            mask[0, 0].item()

        return run

    sides = {"bernoulli": timed(steps(bernoulli)), "bits": timed(steps(dropout_mask))}
    timings = alternate(sides, args.rounds)
    ratio = timings.ratio("bernoulli", "bits")
    milliseconds = {name: 1e3 * timings.median(name) / STEPS for name in sides}
    details = f"{milliseconds['bits']:.2f} ms against {milliseconds['bernoulli']:.2f} ms"
    title = "dropout masks from sixteen bits per element against bernoulli_"
    report([at_least(20, title, ratio, AIM, details)], args)


def bernoulli(like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return a mask drawn element by element."""
    return torch.empty_like(like).bernoulli_(1 - rate, generator=generator).mul_(1 / (1 - rate))


if __name__ == "__main__":
    main()
