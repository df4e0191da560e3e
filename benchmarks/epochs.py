"""Claim 7: one training epoch from the cache against the same epoch that reruns the backbone.

Both sides take the same steps on the same sentences with the same heads and optimizer (CoNLL-2003
train, batches of 16, no dev scoring), the backbone in the dtype of the cache. The backbone's pass
over an epoch is run once per round and its seconds are added to each head's own. Each epoch from
the cache begins with reading all rows of the entry from the page cache into memory. A run of
several epochs does that once: hence the seconds of reading in the details. They are read once more
before, uncounted: the backbone takes minutes, in which a virtual machine gives its free memory back
to the host, and gets it again far more slowly than memory that it still has. The head's own steps
are on both sides, and so bound the ratio where they take long.

    python benchmarks/epochs.py --models MODELS --data DATA
"""

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from measure import Timings, alternate, at_least, report
from subjects import LARGE, MPNET, data_path, model_path, parser, work_folder

from probekit import ExtractOptions, Location, extract, open_features
from probekit.backbone import Backbone, inspect_backbone, load_backbone
from probekit.base.layers import parse_layers
from probekit.data.encoded import EncodedSplit
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.store import StoredRows
from probekit.tasks import get_task
from probekit.train.member import MemberSpec
from probekit.train.option_groups import Descent, Steps
from probekit.train.source import Inputs, Source
from probekit.train.stream import Residency, Stream, StreamSpec, batches

AIMS = {"p32": 50.0, "attention-fusion": 50.0, "dwatt": 4.0, "concat": 4.0}
BATCH = 16
UNMEASURED = 1


class Cached:
    """Epochs of one head from the cache.

    Attributes:
        stream: the head in training.
        reading: seconds that each epoch spent on reading its rows.
    """

    def __init__(self, name: str, view, device: torch.device, epochs: int) -> None:
        """Draw the head."""
        head = HEADS[name]()
        layers = parse_layers(head.default_layers, view.array.layers[-1])
        spec = StreamSpec(
            train=view,
            seed=0,
            steps=Steps(epochs=epochs, batch_size=BATCH),
            members=(
                MemberSpec(
                    head=head, decoder=DECODERS["linear"](), layers=layers, descent=Descent(lr=1e-3)
                ),
            ),
        )
        (self.source,) = Residency(0, device).sources(spec.train, [spec]).values()
        self.stream = Stream(spec, {"rows": self.source}, ahead=0)
        self.reading: list[float] = []

    def epoch(self) -> float:
        """Read the rows, warm by then, and train for one epoch; return the seconds of both."""
        self._read()
        start = time.perf_counter()
        self.source.resident = self._read()
        self.reading.append(time.perf_counter() - start)
        self.stream.advance(self.stream.step + self.stream.spec.steps_per_epoch, lambda steps: None)
        next(self.stream.members[0].probe.parameters()).sum().item()
        self.source.resident = None
        return time.perf_counter() - start

    def _read(self) -> StoredRows | None:
        """Return all rows, read from the cache into memory."""
        own = self.source
        return Source(own.view, own.layers, device=own.device, resident=True).resident


class Rerun:
    """Epochs of several heads that run the backbone for every batch."""

    def __init__(self, backbone: Backbone, encoded: EncodedSplit, heads: dict[str, Cached]) -> None:
        """Keep what is run."""
        self.backbone, self.encoded, self.heads = backbone, encoded, heads
        self.stream = next(iter(heads.values())).stream
        spec = self.stream.spec
        lengths, size = spec.train.lengths, spec.batch_size
        self._steps = batches(lengths, seed=spec.seed, epochs=spec.epochs, batch_size=size)
        self.seconds: dict[str, float] = {}

    def epoch(self) -> float:
        """Train all heads for one epoch; return the backbone's seconds."""
        spec = self.stream.spec
        self.seconds = dict.fromkeys(self.heads, 0.0)
        backbone = 0.0
        for step in islice(self._steps, spec.steps_per_epoch):
            start = time.perf_counter()
            rows = self._rows(spec.train.positions[step])
            rows[0, 0, 0].item()
            backbone += time.perf_counter() - start
            for name, head in self.heads.items():
                start = time.perf_counter()
                self._train(head, rows, step)
                if rows.is_cuda:
                    torch.cuda.synchronize()
                self.seconds[name] += time.perf_counter() - start
        return backbone

    def _rows(self, examples: np.ndarray) -> torch.Tensor:
        """Return every layer's word rows of some examples: (layers, rows, D), float32."""
        encoded = self.encoded
        starts = encoded.example_tokens[examples]
        lengths = encoded.example_tokens[examples + 1] - starts
        ids = np.full(
            (len(examples), int(lengths.max())), self.backbone.inspection.pad_id, np.int64
        )
        rows = []
        for place, (example, start, length) in enumerate(
            zip(examples, starts, lengths, strict=True)
        ):
            ids[place, :length] = encoded.subwords[start : start + length]
            words = slice(*encoded.example_words[[example, example + 1]])
            rows.append(place * ids.shape[1] + encoded.word_places.first[words])
        states = self.backbone.layers(torch.from_numpy(ids), torch.from_numpy(lengths))
        places = torch.from_numpy(np.concatenate(rows)).to(self.backbone.device)
        return torch.stack([state.flatten(0, 1)[places].float() for state in states])

    def _train(self, head: Cached, rows: torch.Tensor, step: np.ndarray) -> None:
        ((_, _, (stepper,)),) = head.stream._parts
        head.stream.members[0].probe.train()
        own = head.source._inputs(rows, step)
        stepper.step(Inputs(rows, range(len(rows)), own.targets, own.offsets), remaining=0.5)


def main() -> None:
    """Measure and report."""
    options = parser(__doc__)
    options.add_argument("--model", choices=(MPNET, LARGE), default=MPNET)
    options.add_argument("--limit", type=int, help="first sentences of train only")
    options.add_argument("--heads", nargs="+", choices=AIMS, default=list(AIMS))
    args = options.parse_args()
    with work_folder(args) as cache:
        timings, reading, rows = measure(args, cache)
    claims = []
    for name in args.heads:
        cached, rerun = (timings.median(f"{side} {name}") for side in ("cached", "rerun"))
        part = "" if args.limit is None else f" of the first {args.limit:,} sentences"
        details = f"{rows:,} words{part}; {cached:.2f} s, of them {reading[name]:.2f} to read the "
        details += f"rows, against {rerun:.1f} s, of them {timings.median('backbone'):.1f} the "
        details += "backbone's"
        claims.append(
            at_least(
                7,
                f"an epoch from the cache against rerunning the backbone, {name}, {args.model}",
                timings.ratio(f"rerun {name}", f"cached {name}"),
                AIMS[name],
                details,
            )
        )
    report(claims, args)


def measure(args: argparse.Namespace, cache: Path) -> tuple[Timings, dict[str, float], int]:
    """Return the seconds per epoch of both sides, those of reading, and the number of rows."""
    path, data = model_path(args, args.model), data_path(args, "conll2003")
    extract(
        path,
        "conll",
        data=data,
        splits=["train"],
        options=ExtractOptions(limit=args.limit),
        device=args.device,
        cache=cache,
    )
    splits = open_features(args.model, "conll", None, Location(cache=cache))
    view = splits.view("train")
    device = torch.device(args.device)
    heads = {name: Cached(name, view, device, args.rounds + UNMEASURED) for name in args.heads}
    inspection = inspect_backbone(path)
    backbone = load_backbone(inspection, device=args.device)
    examples = get_task("conll").read("train", data).examples[: args.limit]
    encoded = inspection.encode(examples, max_length=None, overlong="stride")
    assert len(encoded.window_lengths) == len(examples), "one window per sentence"
    rerun = Rerun(backbone, encoded, heads)
    shared: list[float] = []
    own: dict[str, list[float]] = {name: [] for name in heads}

    def run_again() -> float:
        shared.append(rerun.epoch())
        for name, seconds in rerun.seconds.items():
            own[name].append(seconds)
        return shared[-1]

    sides = {f"cached {name}": head.epoch for name, head in heads.items()}
    timings = alternate({"backbone": run_again, **sides}, args.rounds)
    seconds = dict(timings.seconds)
    for name, steps in own.items():
        seconds[f"rerun {name}"] = [
            one + two for one, two in zip(shared[UNMEASURED:], steps[UNMEASURED:], strict=True)
        ]
    reading = {name: statistics.median(head.reading[UNMEASURED:]) for name, head in heads.items()}
    return Timings(seconds), reading, len(view)


if __name__ == "__main__":
    main()
