"""Claim 24: with few logits, layers are projected onto them before they are mixed.

A mixture and its linear layer are solved for many problems at once (strengths of L2, folds and
starts). Mixed first, every problem has an h of its own in between; projected first, only logits of
every layer. One value and gradient of 60 problems over 2,490 rows in mpnet-base's shape (13 layers,
768 wide), with one mixture for all rows (p32) and with one for each (attention fusion).

    python benchmarks/mixture_orders.py
"""

from collections.abc import Callable

import torch
from measure import Claim, alternate, report, timed
from subjects import parser

from probekit.probe.fitters.mixtures import (
    MixedFirst,
    Mixture,
    ProjectedFirst,
    RowMixture,
    SharedMixture,
)

LAYERS, ROWS, DIM, PROBLEMS = 13, 2490, 768, 60
LOGITS = (1, 4, 9)
BLOCK_VALUES = 2**19
AIM = 2.0


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    device = torch.device(args.device)
    generator = torch.Generator(device).manual_seed(0)
    z = torch.randn(LAYERS, ROWS, DIM, device=device, generator=generator)
    shared = SharedMixture(LAYERS), torch.randn(PROBLEMS, LAYERS, device=device)
    by_row = RowMixture(z.double().mean(1)), 0.01 * torch.randn(PROBLEMS, DIM, device=device)
    found, reached = [], True
    for name, (mixture, values) in {"p32": shared, "attention fusion": by_row}.items():
        for n_logits in LOGITS:
            matrix = 0.01 * torch.randn(PROBLEMS, n_logits, DIM, device=device)
            sides = {
                "mixed": timed(evaluation(MixedFirst, mixture, values, matrix, z, DIM)),
                "projected": timed(
                    evaluation(ProjectedFirst, mixture, values, matrix, z, LAYERS * n_logits)
                ),
            }
            ratio = alternate(sides, args.rounds).ratio("mixed", "projected")
            found.append(f"{name}, {n_logits} logits: {ratio} x")
            reached &= n_logits > 1 or ratio.median >= AIM
    claim = Claim(
        number=24,
        title="layers projected onto few logits before they are mixed, against mixed first",
        aim=f">= {AIM:g} x the speed with one logit",
        found="; ".join(found),
        reached=reached,
        details=f"{PROBLEMS} problems, {LAYERS} layers, {ROWS:,} rows, {DIM} wide",
    )
    report([claim], args)


def evaluation(
    order: type[MixedFirst] | type[ProjectedFirst],
    mixture: Mixture,
    values: torch.Tensor,
    matrix: torch.Tensor,
    z: torch.Tensor,
    each: int,
) -> Callable[[], None]:
    """Return what computes logits and gradients, with ``each`` values of a row in between."""
    rows = max(BLOCK_VALUES // (PROBLEMS * each), 64)

    def run() -> None:
        total = 0.0
        for part in torch.split(z, rows, 1):
            weights = mixture.weights(values, part)
            own = order(mixture, weights, matrix, part)
            own.by_matrix(own.logits)
            by_weights = own.by_weights(own.logits)
            by_scores = weights * (by_weights - (weights * by_weights).sum(0))
            total += mixture.by_values(by_scores, part)[0, 0]
        float(total)

    return run


if __name__ == "__main__":
    main()
