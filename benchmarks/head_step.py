"""Claim 8: a training step of dwatt and concat against what its arithmetic and its memory need.

The floor is the sum of two parts, each at a rate measured in the same rounds: the step's matrix
products (forward, and backward without the gradient of the features, which nobody needs) at the
rate of products of 1024 x 768 times 768 x 3072 in the same dtype; and AdamW's traffic (value,
gradient and two moments read, value and moments written: 28 bytes per value) at the bandwidth of a
copy.

Features of random numbers in mpnet-base's shape; a batch is 16 sentences of CoNLL-2003's mean
length (232 words).

    python benchmarks/head_step.py
"""

import torch
from machine import matrix_product
from measure import Claim, alternate, report, timed
from subjects import parser

from probekit.base.machine import keep_free_memory
from probekit.base.numbers import torch_generator
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.train.member import MemberSpec, Probe
from probekit.train.option_groups import Descent
from probekit.train.steps import Optimizer

ROWS, LAYERS, DIM, CLASSES = 232, 12, 768, 9
STEPS = 20
COPIED = 2**26
ADAMW_BYTES = 28
AIM = 2.0


class Training:
    """Steps of one head."""

    def __init__(self, name: str, device: torch.device) -> None:
        """Draw head, features and targets."""
        generator = torch_generator(0, name)
        spec = MemberSpec(
            head=HEADS[name](),
            decoder=DECODERS["linear"](),
            layers=tuple(range(1, LAYERS + 1)),
            descent=Descent(lr=1e-4),
        )
        head = spec.head.build(spec.layers, DIM, generator)
        decoder = spec.decoder.build(head.width, CLASSES, generator)
        self.probe = Probe(head, decoder).to(device).train()
        self.optimizer = Optimizer([self.probe], spec.descent)
        z = torch.randn(LAYERS, ROWS, DIM, generator=generator)
        self.z = z.to(device).transpose(0, 1)
        self.targets = torch.randint(CLASSES, (ROWS,), generator=generator).to(device)
        self.offsets = torch.tensor([0, ROWS], device=device)
        self.dropout = torch.Generator(device).manual_seed(0)

    def steps(self) -> None:
        """Take some steps."""
        for _ in range(STEPS):
            logits = self.probe.logits(self.z, self.dropout)
            loss = self.probe.decoder.loss(logits, self.targets, self.offsets)
            loss.backward()
            self.optimizer.step(remaining=1.0)
        loss.item()

    @property
    def n_values(self) -> int:
        """Trained values."""
        return sum(p.numel() for p in self.probe.parameters() if p.requires_grad)


def operations(name: str) -> float:
    """Return the arithmetic of the matrix products of one step."""
    if name == "concat":
        return 4.0 * ROWS * LAYERS * DIM * DIM
    inner = DIM // 2
    first, second = 4.0, 6.0  # the first matrix of a network needs no gradient of its input
    return ROWS * (LAYERS + 1) * DIM * inner * (first + second)


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    keep_free_memory()  # as training does
    device = torch.device(args.device)
    products, n_operations = matrix_product(args.device)
    source = torch.zeros(COPIED, device=device)
    target = torch.empty_like(source)

    def copies() -> None:
        for _ in range(4):
            target.copy_(source)
        target[0].item()

    heads = {name: Training(name, device) for name in ("dwatt", "concat")}
    sides = {name: timed(head.steps) for name, head in heads.items()}
    timings = alternate(
        {**sides, "products": timed(products), "copies": timed(copies)}, args.rounds
    )
    rate = n_operations / timings.median("products")
    bandwidth = 4 * 8.0 * COPIED / timings.median("copies")
    claims = []
    for name, head in heads.items():
        compute, traffic = operations(name) / rate, ADAMW_BYTES * head.n_values / bandwidth
        step = timings.median(name) / STEPS
        low, high = (f(timings.seconds[name]) / STEPS for f in (min, max))
        floor = compute + traffic
        claims.append(
            Claim(
                number=8,
                title=f"a step of {name} against its products and its optimizer's traffic",
                aim=f"<= {AIM:g} x",
                found=f"{step / floor:.2f} ({low / floor:.2f} to {high / floor:.2f}) x",
                reached=step / floor <= AIM,
                details=f"{1e3 * step:.1f} ms; products {1e3 * compute:.1f} ms at "
                f"{rate / 1e9:,.0f} GFLOP/s, traffic {1e3 * traffic:.1f} ms at "
                f"{bandwidth / 1e9:.1f} GB/s",
            )
        )
    report(claims, args)


if __name__ == "__main__":
    main()
