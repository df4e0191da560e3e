"""``probekit train``, ``sweep`` and ``depth``: train heads from the cache, without the backbone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probekit.cli import options
from probekit.cli.training import Target, each, each_name, parse_bytes, run

if TYPE_CHECKING:
    from probekit.results import Record

Head = Annotated[str, typer.Option("--head", help="Name of the head (see `probekit heads`).")]
Decoder = Annotated[
    str | None, typer.Option("--decoder", help="Decoder; the default of the task's kind if unset.")
]
Label = Annotated[
    str | None, typer.Option("--label", help="Label column; the task's default if unset.")
]
Layers = Annotated[
    str | None, typer.Option("--layers", help="Layers instead of the published ones, e.g. 0:13:2.")
]
Normalize = Annotated[
    str,
    typer.Option(
        "--normalize",
        help="Each layer before the head: none, layernorm, standardize, final-norm.",
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
    typer.Option("--hold-out", help="Share of train that serves as dev, for data without one."),
]
Epochs = Annotated[str, typer.Option("--epochs", help="Passes over the training sentences.")]
Lr = Annotated[str, typer.Option("--lr", help="Peak learning rate; auto is the published one.")]
MixLr = Annotated[
    str, typer.Option("--mix-lr", help="Learning rate of the mixing weights; auto is --lr.")
]
BatchSize = Annotated[int, typer.Option("--batch-size", help="Sentences per step.")]
Evals = Annotated[
    int, typer.Option("--evals", help="How often dev is scored, evenly spaced, the end included.")
]
Seeds = Annotated[int, typer.Option("--seeds", help="How many seeds: 0, 1, 2, ...")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Records file; runs/<model>/<task>.jsonl if unset."),
]
Save = Annotated[Path | None, typer.Option("--save", help="Folder to save the trained heads in.")]
Predictions = Annotated[
    bool, typer.Option("--predictions", help="Write dev and test predictions beside the records.")
]
LabelData = Annotated[
    Path | None,
    typer.Option("--data", help="Read the labels (only the labels) afresh from here."),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Memory to use, e.g. 8GB; half of what is free if unset."),
]
Engine = Annotated[str, typer.Option("--engine", help="What runs the workers: local.")]
Workers = Annotated[int, typer.Option("--workers", help="Worker processes.")]


def train(
    model: options.Model,
    task: options.OptionalTask = None,
    head: Head = "dwatt",
    decoder: Decoder = None,
    label: Label = None,
    layers: Layers = None,
    depth: Annotated[
        int | None, typer.Option("--depth", help="Largest layer that the head may see.")
    ] = None,
    normalize: Normalize = "none",
    shots: Shots = None,
    fraction: Fraction = None,
    hold_out: HoldOut = None,
    epochs: Epochs = "50",
    lr: Lr = "auto",
    mix_lr: MixLr = "auto",
    batch_size: BatchSize = 16,
    evals: Evals = 10,
    seeds: Seeds = 1,
    entry: options.EntryKey = None,
    data: LabelData = None,
    kind: options.Kind = None,
    text: options.TextColumn = None,
    cache: options.Cache = Path("cache"),
    out: Out = None,
    save: Save = None,
    predictions: Predictions = False,
    memory: Memory = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Train one head from the cache and print its scores."""
    sweep(
        model, task, head=head, decoder=decoder, label=label, layers=layers,
        depth=None if depth is None else str(depth), normalize=normalize, shots=shots,
        fraction=fraction, hold_out=hold_out, epochs=epochs, lr=lr, mix_lr=mix_lr,
        batch_size=batch_size, evals=evals, seeds=seeds, entry=entry, data=data, kind=kind,
        text=text, cache=cache, out=out, save=save, predictions=predictions, memory=memory,
        workers=1, engine="local", device=device, json=json,
    )  # fmt: skip


def sweep(
    model: options.Model,
    task: options.OptionalTask = None,
    head: Head = "last,p32,concat,dwatt",
    decoder: Decoder = None,
    label: Label = None,
    layers: Layers = None,
    depth: Annotated[
        str | None, typer.Option("--depth", help="Largest layers that the head may see.")
    ] = None,
    normalize: Normalize = "none",
    shots: Shots = None,
    fraction: Fraction = None,
    hold_out: HoldOut = None,
    epochs: Epochs = "50",
    lr: Lr = "auto",
    mix_lr: MixLr = "auto",
    batch_size: BatchSize = 16,
    evals: Evals = 10,
    seeds: Seeds = 1,
    entry: options.EntryKey = None,
    data: LabelData = None,
    kind: options.Kind = None,
    text: options.TextColumn = None,
    cache: options.Cache = Path("cache"),
    out: Out = None,
    save: Save = None,
    predictions: Predictions = False,
    memory: Memory = None,
    workers: Workers = 1,
    engine: Engine = "local",
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Train every combination of comma-separated options; finished runs are skipped."""
    target = Target.of(model, task, cache=cache, entry=entry, data=data, kind=kind, text=text)
    records = run(
        target,
        fixed={
            "hold_out": hold_out,
            "layers": layers,
            "batch_size": batch_size,
            "evals": evals,
        },
        varied={
            "label": each_name(label),
            "head": options.split_list(head),
            "decoder": each_name(decoder),
            "depth": each(depth, int, "--depth"),
            "normalize": options.split_list(normalize),
            "shots": each(shots, int, "--shots"),
            "fraction": each(fraction, float, "--fraction"),
            "epochs": each(epochs, int, "--epochs"),
            "lr": each(lr, float, "--lr"),
            "mix_lr": each(mix_lr, float, "--mix-lr"),
            "seed": list(range(seeds)),
        },
        out=out,
        save=save,
        predictions=predictions,
        memory=parse_bytes(memory),
        workers=workers,
        engine=engine,
        device=device,
    )
    _print_scores(records, json=json)


def depth(
    model: options.Model,
    task: options.OptionalTask = None,
    head: Head = "last",
    decoder: Decoder = None,
    label: Label = None,
    layers: Layers = None,
    every: Annotated[int, typer.Option("--every", help="Distance between depths.")] = 1,
    normalize: Normalize = "none",
    shots: Shots = None,
    fraction: Fraction = None,
    hold_out: HoldOut = None,
    epochs: Epochs = "5",
    lr: Lr = "auto",
    mix_lr: MixLr = "auto",
    batch_size: BatchSize = 16,
    evals: Evals = 5,
    seeds: Seeds = 1,
    entry: options.EntryKey = None,
    data: LabelData = None,
    kind: options.Kind = None,
    text: options.TextColumn = None,
    cache: options.Cache = Path("cache"),
    out: Out = None,
    memory: Memory = None,
    workers: Workers = 1,
    engine: Engine = "local",
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Train a head at every depth 0..L in one pass over the cache."""
    from probekit.depth import depths

    target = Target.of(model, task, cache=cache, entry=entry, data=data, kind=kind, text=text)
    records = run(
        target,
        fixed={
            "hold_out": hold_out,
            "layers": layers,
            "batch_size": batch_size,
            "evals": evals,
        },
        varied={
            "label": each_name(label),
            "head": options.split_list(head),
            "decoder": each_name(decoder),
            "depth": list(depths(target.n_blocks(next(iter(each_name(label)), None)), every)),
            "normalize": options.split_list(normalize),
            "shots": each(shots, int, "--shots"),
            "fraction": each(fraction, float, "--fraction"),
            "epochs": each(epochs, int, "--epochs"),
            "lr": each(lr, float, "--lr"),
            "mix_lr": each(mix_lr, float, "--mix-lr"),
            "seed": list(range(seeds)),
        },
        out=out,
        memory=parse_bytes(memory),
        workers=workers,
        engine=engine,
        device=device,
    )
    _print_depths(records, json=json)


def _print_scores(records: "list[Record]", *, json: bool) -> None:
    from probekit.cli.output import print_json
    from probekit.report import caption, summarise, table

    if json:
        print_json([record.to_json() for record in records])
        return
    rows = summarise(records)
    typer.echo(table(rows))
    typer.echo(caption(rows))


def _print_depths(records: "list[Record]", *, json: bool) -> None:
    from probekit.cli.output import print_json
    from probekit.report import caption, depth_table, summarise

    if json:
        print_json([record.to_json() for record in records])
        return
    typer.echo(depth_table(records))
    typer.echo(caption(summarise(records)))
