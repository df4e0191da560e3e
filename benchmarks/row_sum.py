"""Claim 17: a sum over layers with a weight per row, layer by layer against a batch of products.

DWAtt, attention fusion and laya take ``sum_i w_i z_i`` with weights of each row's own. As a batched
product it is one call, but on a CPU, where this always runs, its rows are multiplied one after the
other. Forward and backward, in float32 and mpnet-base's shape (12 layers, 768 wide, 232 rows), on
the threads that torch uses.

    python benchmarks/row_sum.py
"""

from collections.abc import Callable

import torch
from measure import Claim, alternate, report, timed
from subjects import parser
from torch import Tensor

from probekit.probe.heads.sums import row_sum

LAYERS, ROWS, DIM = 12, 232, 768
STEPS = 20
AIM = 1.2


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    args.device = "cpu"  # elsewhere probekit takes the products too
    device = torch.device(args.device)
    generator = torch.Generator(device).manual_seed(0)
    z = torch.randn(LAYERS, ROWS, DIM, device=device, generator=generator).requires_grad_()
    weights = torch.rand(LAYERS, ROWS, device=device, generator=generator).requires_grad_()
    gradient = torch.randn(ROWS, DIM, device=device, generator=generator)

    def steps(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(STEPS):
                z.grad = weights.grad = None
                function(weights, z).backward(gradient)
            weights.grad[0, 0].item()

        return run

    sides = {"products": timed(steps(products)), "layers": timed(steps(row_sum))}
    timings = alternate(sides, args.rounds)
    ratio = timings.ratio("products", "layers")
    milliseconds = {name: 1e3 * timings.median(name) / STEPS for name in sides}
    claim = Claim(
        number=17,
        title="a sum over layers with weights per row against a batch of products",
        aim=f">= {AIM} x the speed",
        found=f"{ratio} x",
        reached=ratio.median >= AIM,
        details=f"{milliseconds['layers']:.1f} ms against {milliseconds['products']:.1f} ms",
    )
    report([claim], args)


def products(weights: Tensor, z: Tensor) -> Tensor:
    """Return the sum as one product of a vector and a matrix per row."""
    return torch.bmm(weights.t().unsqueeze(1), z.transpose(0, 1)).squeeze(1)


if __name__ == "__main__":
    main()
