"""``probekit cache copy`` and ``convert``: entries in another cache, or in another form."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from probekit.base.notices import human_bytes
from probekit.cli import arguments
from probekit.cli.cache import Entries
from probekit.cli.output import progress_wanted, show
from probekit.errors import OptionError
from probekit.extraction import maintenance  # its names load on first use

logger = logging.getLogger(__name__)

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace entries that are there, finished or not.")
]


def copy(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC", help="A cache root, paths or keys of entries, or MODEL TASK [SPLIT]."
        ),
    ],
    to: Annotated[str, typer.Argument(metavar="DST", help="The cache root that gets the copies.")],
    layers: Annotated[
        str | None, typer.Option("--layers", help="Copy these layers alone: -1, 0,4,8 or 1:6.")
    ] = None,
    array: Annotated[
        list[str] | None,
        typer.Option("--array", help="Copy this array alone, such as words; may be repeated."),
    ] = None,
    overwrite: Overwrite = False,
    cache: arguments.Cache = Path("cache"),
) -> None:
    """Copy entries with their labels to another cache, verified; goes on after a kill."""
    copies = maintenance.copy_entries(
        maintenance.select_sources(source, cache),
        arguments.cache_root(to),
        layers=layers,
        arrays=array or (),
        overwrite=overwrite,
        progress=progress_wanted(),
    )
    for made, there in copies:
        _say("copied to", made.destination.path, there, made.nbytes)


def convert(
    entry: Entries,
    format: Annotated[
        str | None, typer.Option("--format", help="zarr or hdf5; as it is if unset.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="float16, bfloat16, float32, int8 or auto; as it is if unset."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="The cache root that gets the entries; their own if unset."),
    ] = None,
    overwrite: Overwrite = False,
    cache: arguments.Cache = Path("cache"),
) -> None:
    """Store entries in another format or dtype, without the model; goes on after a kill."""
    if format is None and dtype is None:
        raise OptionError("say what is to change: --format zarr or hdf5, --dtype, or both.")
    made = maintenance.convert_entries(
        maintenance.select_sources(entry, cache),
        format=format,
        dtype=dtype,
        root=None if to is None else arguments.cache_root(to),
        overwrite=overwrite,
        progress=progress_wanted(),
    )
    for one, there in made:
        _say("converted to", one.destination.path, there, one.nbytes)
        if one.rounded and not there:
            gone = " and ".join(one.manifest.request["through"])
            logger.warning(
                "%s was rounded to %s before: `probekit extract` does not take it for what it "
                "would store, and extracts anew; `train` reads it.",
                one.destination.path.name,
                gone,
            )


def _say(done: str, path: Path, there: bool, nbytes: int) -> None:
    said = f"there already: {path}" if there else f"{done} {path} ({human_bytes(nbytes)})"
    show(said, err=True)
