"""The options that ``train``, ``sweep`` and ``depth`` share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from probekit.cli import options
from probekit.cli.spread import OptionsOf
from probekit.train.sweeps.run_options import GROUPS

OF_RUNS = OptionsOf(GROUPS)
"""The options of runs: their help stands where the library keeps them."""

Asked = Annotated[Mapping[str, Any], OF_RUNS]
"""Options of runs as the user types them, by name; lists are still text, separated by commas."""

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
    """Options besides those of runs, as the user types them."""

    seeds: Seeds = None
    protocol: Preset = None
    entry: options.EntryKey = None
    data: LabelData = None
    cache: options.Cache = Path("cache")
    out: Out = None
    memory: Memory = None
    device: options.Device = "auto"
    log_file: options.LogFile = None
    json: options.Json = False
