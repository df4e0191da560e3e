"""``probekit extract``: run a frozen model once and cache every layer."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options


def extract(
    model: options.Model,
    task: options.Task,
    data: options.Data = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Splits, e.g. train,dev,test; all by default.")
    ] = None,
    format: Annotated[str, typer.Option("--format", help="zarr or hdf5.")] = "zarr",
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            help="Stored dtype: auto (float16, guarded), float16, bfloat16, float32, int8.",
        ),
    ] = "auto",
    compute_dtype: Annotated[
        str,
        typer.Option(
            "--compute-dtype", help="auto (bfloat16 where native), float32, bfloat16, float16."
        ),
    ] = "auto",
    layers: Annotated[
        str, typer.Option("--layers", help="Layers to store: all, -1, 0,4,8 or 0:25:4.")
    ] = "all",
    keep: Annotated[
        str,
        typer.Option("--keep", help="Arrays: words (all layers), tokens (last layer's subwords)."),
    ] = "words,tokens",
    pooling: Annotated[
        str,
        typer.Option(
            "--pooling",
            help="Which subwords make a word's row: auto (first; last for causal models), "
            "first, last, mean.",
        ),
    ] = "auto",
    overlong: Annotated[
        str,
        typer.Option(
            "--overlong",
            help="Texts longer than the limit: stride (overlapping windows), truncate, error.",
        ),
    ] = "stride",
    max_length: Annotated[
        int | None,
        typer.Option("--max-length", help="Limit in subwords; the model's own if unset."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first N examples of each split.")
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", help="Padded tokens per batch.")
    ] = 4096,
    device: options.Device = "auto",
    cache: options.Cache = Path("cache"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a complete entry of the same key.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Hub branch, tag or commit.")
    ] = None,
    kind: options.Kind = None,
    text: options.TextColumn = None,
    label: Annotated[
        str | None, typer.Option("--label", help="For your own data: the label column.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Run MODEL over TASK's text once and write every layer's hidden states to the cache."""
    from probekit.cli.output import print_entries, progress_wanted
    from probekit.extraction import ExtractOptions
    from probekit.extraction import extract as run

    options.check_order(model, task)
    entries = run(
        model,
        task,
        data=data,
        splits=options.split_list(split) if split is not None else None,
        options=ExtractOptions(
            format=format,
            dtype=dtype,
            compute_dtype=compute_dtype,
            layers=layers,
            keep=tuple(options.split_list(keep)),
            pooling=pooling,
            overlong=overlong,
            max_length=max_length,
            limit=limit,
            batch_tokens=batch_tokens,
        ),
        device=device,
        cache=cache,
        overwrite=overwrite,
        revision=revision,
        kind=kind,
        text=text,
        label=label,
        progress=progress_wanted(),
    )
    print_entries(entries, json=json)
