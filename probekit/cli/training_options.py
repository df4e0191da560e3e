"""The options that ``train``, ``sweep`` and ``depth`` share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options

Head = Annotated[
    str | None,
    typer.Option(
        "--head",
        help="Head (see `probekit heads`), with options: extra-layers:n=2; several with commas.",
        show_default="dwatt",
    ),
]
Heads = Annotated[
    str | None,
    typer.Option(
        "--head", help="Heads, separated by commas.", show_default="last,p32,concat,dwatt"
    ),
]
Epochs = Annotated[
    str | None,
    typer.Option("--epochs", help="Passes over the training sentences.", show_default="50"),
]
Evals = Annotated[
    int | None,
    typer.Option(
        "--evals",
        help="How often dev is scored, evenly spaced, the end included.",
        show_default="10",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="What runs the workers: local.")]
Workers = Annotated[int, typer.Option("--workers", help="Worker processes.")]
Decoder = Annotated[
    str | None,
    typer.Option(
        "--decoder",
        help="Name of the decoder (see `probekit heads`), with options: mlp:hidden=128; the "
        "default for the labels if unset.",
    ),
]
Label = Annotated[
    str | None, typer.Option("--label", help="Label column; the task's default if unset.")
]
Layers = Annotated[
    str | None, typer.Option("--layers", help="Layers instead of the published ones, e.g. 0:13:2.")
]
Normalize = Annotated[
    str | None,
    typer.Option(
        "--normalize",
        help="Each layer before the head: none, layernorm, standardize, final-norm.",
        show_default="none; standardize for a mixture that is solved",
    ),
]
Shots = Annotated[
    str | None, typer.Option("--shots", help="K: draw K x classes training sentences.")
]
Fraction = Annotated[
    str | None, typer.Option("--fraction", help="Draw this share of the training sentences.")
]
HoldOut = Annotated[
    float | None,
    typer.Option(
        "--hold-out", help="Share of train kept as a split of its own; dev, if there is none."
    ),
]
Fit = Annotated[
    str,
    typer.Option(
        "--fit",
        help="How: lbfgs or ridge solve for the optimum, adam takes steps; auto solves where the "
        "problem is smooth and small.",
    ),
]
Select = Annotated[
    str | None,
    typer.Option(
        "--select",
        help="What chooses L2, checkpoint or rate: dev, held-out (--hold-out), cv:K, hold-out:F.",
        show_default="held-out beside dev; else dev, or cv:5 without a labelled test split",
    ),
]
L2 = Annotated[
    str | None,
    typer.Option("--l2", help="Strength of a solver's L2; auto chooses it.", show_default="auto"),
]
Lr = Annotated[
    str | None,
    typer.Option(
        "--lr",
        help="Peak learning rate; of groups of parameters as mixing=0.1,transitions=0.05; auto is "
        "the head's own, search finds it by trials on other seeds.",
        show_default="auto",
    ),
]
BatchSize = Annotated[
    str | None, typer.Option("--batch-size", help="Sentences per step.", show_default="16")
]
Seeds = Annotated[
    str | None,
    typer.Option(
        "--seeds",
        callback=options.check_seeds,
        help=options.SEEDS_HELP,
        show_default="1",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        help="Preset of what is not given: dwatt, attention-fusion, p32 (see `probekit heads`).",
    ),
]
PooledRow = Annotated[
    str | None,
    typer.Option(
        "--pooling",
        help="For labels of whole texts: cls, mean or last row.",
        show_default="mean, cls under a pooler or a protocol, last for a causal model",
    ),
]
Optimizer = Annotated[
    str | None, typer.Option("--optimizer", help="adamw or adam.", show_default="adamw")
]
Schedule = Annotated[
    str | None,
    typer.Option(
        "--schedule", help="Learning rate over time: linear or constant.", show_default="linear"
    ),
]
WeightDecay = Annotated[
    str | None,
    typer.Option(
        "--weight-decay",
        help="AdamW's decoupled weight decay; search finds it by trials.",
        show_default="0.01",
    ),
]
FitOn = Annotated[
    str, typer.Option("--fit-on", help="Split to fit on, for data without a train split.")
]
Control = Annotated[
    int | None,
    typer.Option(
        "--control", help="Seed of control labels, random by word type, to learn instead."
    ),
]
FusionFrom = Annotated[
    str | None, typer.Option("--fusion-from", help="Saved head whose fusion to start from.")
]
FreezeFusion = Annotated[
    bool, typer.Option("--freeze-fusion", help="Keep that fusion; train the decoder alone.")
]
InitFrom = Annotated[
    str | None,
    typer.Option(
        "--init-from",
        help="Saved head to go on training, decoder included; with --shots 0 (or --fraction 0) to "
        "score as it is.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Records file; runs/<model>/<task>.jsonl if unset."),
]
LabelData = Annotated[
    Path | None,
    typer.Option("--data", help="Read the labels (only the labels) afresh from here."),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Memory to use, e.g. 8GB; half of what is free if unset."),
]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options as the user types them; lists are still text, separated by commas."""

    decoder: Decoder = None
    label: Label = None
    layers: Layers = None
    normalize: Normalize = None
    shots: Shots = None
    fraction: Fraction = None
    hold_out: HoldOut = None
    fit: Fit = "auto"
    select: Select = None
    l2: L2 = None
    lr: Lr = None
    batch_size: BatchSize = None
    seeds: Seeds = None
    protocol: Preset = None
    pooling: PooledRow = None
    optimizer: Optimizer = None
    schedule: Schedule = None
    weight_decay: WeightDecay = None
    fit_on: FitOn = "train"
    control: Control = None
    fusion_from: FusionFrom = None
    freeze_fusion: FreezeFusion = False
    init_from: InitFrom = None
    entry: options.EntryKey = None
    data: LabelData = None
    cache: options.Cache = Path("cache")
    out: Out = None
    memory: Memory = None
    device: options.Device = "auto"
    log_file: options.LogFile = None
    json: options.Json = False
