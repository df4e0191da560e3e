"""The tables of SCALE.md: bytes, seconds and money of large extractions, and simulated ones.

Bytes are those that probekit itself lays out, for texts of even sentences. Rates and
prices are round assumptions of November 2026, in constants below; put in your own.

    python benchmarks/scale.py
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from cluster import Cluster, Work, simulate, simulate_often, undisturbed

from probekit.base.notices import human_bytes, human_time
from probekit.extraction.forecasting import Forecast, break_even
from probekit.extraction.plan import lay_out, unit_share
from probekit.store.layout import FeatureDtype

BEGIN, END = "<!-- scale: begin -->", "<!-- scale: end -->"
HOUR = 3600.0
SEEDS = range(101)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What a machine does in a second, and what it costs.

    Attributes:
        arithmetic: operations per second of one processor in a forward pass.
        disk: bytes per second that a machine writes, or reads, on its own disks.
        network: bytes per second between a machine and disks that all of them share.
        hour: dollars for an hour of a processor.
    """

    arithmetic: float
    disk: float
    network: float
    hour: float


CORES = Rates(arithmetic=7.3e11, disk=1.6e9, network=1.25e9, hour=0.1)
"""Two cores with AVX512-BF16. Arithmetic and disk are measured: `RESULTS.md`, claims 1 and 23."""

H100 = Rates(arithmetic=4e14, disk=5e9, network=12.5e9, hour=2.5)
"""One of eight of a machine."""

START, WAIT = 300.0, 60.0
"""Seconds in which a worker loads a large model, and until a failed one is started again."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A text and a model.

    Attributes:
        name: of both.
        array: which rows are kept.
        examples: of the text.
        rows: that are kept, in each layer.
        tokens: that the model reads.
        parameters: of its blocks.
        blocks: how many.
        dim: its width.
        rates: of a machine.
        gpus: processors that compute: GPUs, or one processor of two cores.
        machines: that hold them.
        some: layers of the middle way.
    """

    name: str
    array: str
    examples: int
    rows: int
    tokens: int
    parameters: float
    blocks: int
    dim: int
    rates: Rates
    gpus: int
    machines: int
    some: int = 4

    @property
    def speed(self) -> float:
        """Tokens per second of all of them: a multiplication and an addition per parameter."""
        return self.gpus * self.rates.arithmetic / (2 * self.parameters)

    @property
    def model_seconds(self) -> float:
        """Seconds of one pass over the text."""
        return self.tokens / self.speed


SUBJECTS = (
    Subject(
        name="CoNLL-2003 x roberta-large, two cores", array="words", examples=22_137,
        rows=301_418, tokens=430_000, parameters=0.3e9, blocks=24, dim=1024, rates=CORES, gpus=1,
        machines=1,
    ),
    Subject(
        name="100 M tokens x 8B, 8 GPUs", array="predicted", examples=200_000, rows=10**8,
        tokens=10**8, parameters=8e9, blocks=32, dim=4096, rates=H100, gpus=8, machines=1,
    ),
    Subject(
        name="1 B tokens x 70B, 64 GPUs", array="predicted", examples=2_000_000, rows=10**9,
        tokens=10**9, parameters=70e9, blocks=80, dim=8192, rates=H100, gpus=64, machines=8,
    ),
)  # fmt: skip

_LAID_OUT = 2**20
"""Rows that are laid out at most: a larger text has as many bytes and files for each of its own."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of a subject.

    Attributes:
        subject: text and model.
        name: of the choice.
        layers: how many.
        dtype: how rows are stored.
    """

    subject: Subject
    name: str
    layers: int
    dtype: FeatureDtype = "float16"

    @property
    def nbytes(self) -> float:
        """Bytes of the entry."""
        return self._laid_out[0]

    @property
    def unit_tokens(self) -> float:
        """Tokens of a unit, about."""
        return self._laid_out[1]

    @property
    def _laid_out(self) -> tuple[float, float]:
        return laid_out(self.subject, self.layers, self.dtype)

    @property
    def token_bytes(self) -> float:
        """Bytes for each token that the model reads."""
        return self.nbytes / self.subject.tokens

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of each thing that may be the limit, if it were the only one."""
        subject = self.subject
        return {
            "model": subject.model_seconds,
            "disk": self.nbytes / (subject.machines * subject.rates.disk),
            "network": self.nbytes / (subject.machines * subject.rates.network),
        }

    @property
    def limit(self) -> str:
        """What takes longest on own disks or on shared ones, whichever is faster."""
        seconds = self.seconds
        ways = (("model", "disk"), ("model", "network"))
        slowest = [max(way, key=seconds.__getitem__) for way in ways]
        return min(slowest, key=seconds.__getitem__)

    def forecast(self, bandwidth: float) -> Forecast:
        """Return what `extract --dry-run` would tell where all machines move so many bytes/s."""
        moved = self.nbytes / bandwidth
        return Forecast(
            split="train", path="", complete=False, begun=0.0, examples=self.subject.examples,
            rows={self.subject.array: self.subject.rows}, nbytes=round(self.nbytes),
            seconds=max(self.subject.model_seconds, moved), units=1, unit_seconds=0.0,
            rerun_seconds=self.subject.model_seconds,
            read_seconds=moved,
        )  # fmt: skip


def choices(subject: Subject) -> list[Kept]:
    """Return what may be kept of a subject, from most to least."""
    every = subject.blocks + 1
    return [
        Kept(subject=subject, name=f"all {every} layers, float16", layers=every),
        Kept(subject=subject, name=f"all {every}, int8", layers=every, dtype="int8"),
        Kept(subject=subject, name=f"{subject.some} layers, float16", layers=subject.some),
        Kept(subject=subject, name="one layer, float16", layers=1),
    ]


@cache
def laid_out(subject: Subject, layers: int, dtype: FeatureDtype) -> tuple[float, float]:
    """Return bytes, and tokens of a unit, as probekit lays the entry out."""
    share = min(1.0, _LAID_OUT / subject.rows)
    count = max(1, round(share * subject.examples))
    lengths = np.diff(np.linspace(0, share * subject.rows, count + 1).round()).astype(np.int64)
    arrays, units = lay_out(
        {subject.array: lengths},
        {subject.array: tuple(range(layers))},
        {subject.array: subject.dim},
        dtype,
        unit_share(subject.tokens, subject.blocks, subject.dim) / share,
    )
    return arrays[subject.array].nbytes / share, share * subject.tokens / len(units)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def assumptions() -> str:
    """Return the table of what is assumed."""
    both = (CORES, H100)
    rows = [
        ("forward pass", *(f"{one.arithmetic / 1e12:g} TFLOP/s" for one in both)),
        ("own disks", *(f"{human_bytes(one.disk)}/s" for one in both)),
        ("network to shared disks", *(f"{human_bytes(one.network)}/s" for one in both)),
        ("an hour", *(dollars(one.hour) for one in both)),
    ]
    return table(("", "two cores (measured)", "an H100, one of eight"), rows)


def sizes() -> str:
    """Return the table of bytes, seconds, money, and when a cache has paid for itself."""
    header = (
        "", "kept", "a token", "bytes", "model", "own disks", "shared disks", "cost",
        "epochs, own", "epochs, shared", "layers",
    )  # fmt: skip
    rows = []
    for subject in SUBJECTS:
        disks = subject.machines * subject.rates.disk
        for kept in choices(subject):
            seconds = kept.seconds
            slowest = kept.limit
            cells = {name: human_time(value) for name, value in seconds.items()}
            cells[slowest] = f"**{cells[slowest]}**"
            a_layer = kept.token_bytes / kept.layers
            rows.append(
                (
                    subject.name if kept == choices(subject)[0] else "",
                    kept.name,
                    human_bytes(kept.token_bytes),
                    human_bytes(kept.nbytes),
                    *cells.values(),
                    dollars(seconds[slowest] * subject.gpus / HOUR * subject.rates.hour),
                    paid(kept.forecast(disks)),
                    paid(kept.forecast(subject.machines * subject.rates.network)),
                    f"{disks / a_layer / subject.speed:,.0f}",
                )
            )
    return table(header, rows)


def paid(forecast: Forecast) -> str:
    """Return after how many epochs a cache has paid for itself."""
    found = break_even([forecast])
    return "never" if found is None else f"{found:.1f}"


def simulated() -> str:
    """Return the table of 10^9 tokens on 64 GPUs with a failure every hour."""
    header = (
        "model", "kept", "bandwidth", "no failure", "a failure an hour", "failures", "tokens again",
    )  # fmt: skip
    rows = []
    for like, name, workers in ((SUBJECTS[1], "8B", 64), (SUBJECTS[2], "70B", 8)):
        subject = replace(
            like, name=name, rows=10**9, tokens=10**9, examples=2_000_000, gpus=64, machines=8
        )
        for kept in (choices(subject)[0], choices(subject)[2]):
            for bandwidth in (8 * H100.network, H100.network):
                cluster = Cluster(
                    workers=workers,
                    speed=subject.speed / workers,
                    bandwidth=bandwidth,
                    start=START,
                    wait=WAIT,
                    between_failures=HOUR,
                )
                work = Work(
                    tokens=subject.tokens,
                    unit_tokens=kept.unit_tokens,
                    token_bytes=kept.token_bytes,
                )
                without = simulate(undisturbed(cluster), work)
                hit = simulate_often(cluster, work, SEEDS)
                rows.append(
                    (
                        subject.name,
                        kept.name,
                        f"{human_bytes(bandwidth)}/s",
                        human_time(without.seconds),
                        human_time(hit.seconds),
                        str(hit.failures),
                        f"{hit.repeated:,.0f}",
                    )
                )
    return table(header, rows)


def dollars(amount: float) -> str:
    """Return an amount with a sign, and no cents beyond a hundred."""
    return f"${amount:,.2f}" if amount < 100 else f"${amount:,.0f}"


def page() -> str:
    """Return all tables, as SCALE.md has them."""
    return "\n\n".join((assumptions(), sizes(), simulated()))


if __name__ == "__main__":
    print(page())
