"""``probekit cache copy``, ``convert``, ``import``, ``push``, ``pull``: entries come and go."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from probekit import exchange  # its names load on first use, as do those of `maintenance`
from probekit.base.notices import human_bytes
from probekit.cli import arguments
from probekit.cli.cache import Entries, EntryOptions, confirm
from probekit.cli.output import print_entries, print_json, print_table, progress_wanted, show
from probekit.cli.spread import spread
from probekit.errors import EntryNotFoundError, OptionError
from probekit.extraction import maintenance
from probekit.extraction.request_options import ImportOptions

logger = logging.getLogger(__name__)

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace entries that are there, finished or not.")
]

PartLayers = Annotated[
    str | None, typer.Option("--layers", help="These layers alone: -1, 0,4,8 or 0:25:4.")
]
PartArrays = Annotated[
    list[str] | None,
    typer.Option("--array", help="This array alone, such as words; may be repeated."),
]


def copy(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC", help="A cache root, paths or keys of entries, or MODEL TASK [SPLIT]."
        ),
    ],
    to: Annotated[str, typer.Argument(metavar="DST", help="The cache root that gets the copies.")],
    layers: PartLayers = None,
    array: PartArrays = None,
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
        _say("copied to", made.path, there, made.nbytes)


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
    conversions = maintenance.convert_entries(
        maintenance.select_sources(entry, cache),
        format=format,
        dtype=dtype,
        root=None if to is None else arguments.cache_root(to),
        overwrite=overwrite,
        progress=progress_wanted(),
    )
    for conversion, there in conversions:
        _say("converted to", conversion.path, there, conversion.nbytes)
        if conversion.rounded and not there:
            logger.warning(
                "%s was rounded to %s before: `probekit extract` does not take it for what it "
                "would store, and extracts anew; `train` reads it.",
                conversion.path.name,
                " and ".join(conversion.manifest.request["through"]),
            )


def _say(done: str, path: Path, there: bool, nbytes: int) -> None:
    said = f"there already: {path}" if there else f"{done} {path} ({human_bytes(nbytes)})"
    show(said, err=True)


States = Annotated[
    list[str],
    typer.Argument(
        metavar="STATES",
        help="SPLIT=PATH of a folder of vLLM's files for each split; PATH alone serves all splits "
        "of --split.",
    ),
]


@spread
def import_entries(
    model: arguments.Model,
    task: arguments.Task,
    states: States,
    *,
    entry: EntryOptions,
    text: arguments.OwnData,
    label: arguments.Label = None,
    json: arguments.Json = False,
    shared: ImportOptions,
) -> None:
    """Make entries of hidden states that vLLM computed of TASK's text, one file per request.

    They are checked against the text, token by token with MODEL's tokenizer. Arrays are imported in
    Python: probekit.import_states.
    """
    from probekit.extraction.imports import import_states

    options = vars(entry).copy()
    split = options.pop("split")
    splits = None if split is None else arguments.split_list(split)
    entries = import_states(
        model,
        task,
        _by_split(states, splits),
        splits=splits,
        options=shared,
        label=label,
        progress=progress_wanted(),
        restart=entry.overwrite,
        **vars(text.parse()),
        **options,
    )
    print_entries(entries, json=json)


def _by_split(states: Sequence[str], splits: list[str] | None) -> str | dict[str, str]:
    """Return one path, or the path of each split.

    Raises:
        OptionError: there are several without a split, two of one split, or a split beside them.
    """
    pairs = [text.partition("=") for text in states]
    alone = [text for text in states if Path(text).exists() or "=" not in text]
    if alone:
        if len(states) > 1:
            raise OptionError(
                f"{alone[0]} is of which split? With several STATES, write SPLIT=PATH for each."
            )
        return alone[0]
    if splits is not None:
        raise OptionError(
            f"{states[0]} says its split itself: leave --split {','.join(splits)} out."
        )
    named = {split: path for split, _, path in pairs}
    if len(named) < len(pairs):
        raise OptionError(f"two STATES of one split: {' '.join(states)}. Give one for each.")
    return named


Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="A folder, s3://BUCKET/PREFIX (gs://, az://) or hf://datasets/OWNER/NAME[@REVISION].",
    ),
]
Split = Annotated[
    str | None, typer.Option("--split", help="Splits, e.g. train,dev; all by default.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List what would be sent or read, with sizes, and stop.")
]


def push(
    entry: Annotated[
        list[str],
        typer.Argument(metavar="ENTRY", help="Paths or keys of entries, or MODEL TASK [SPLIT]."),
    ],
    url: Url,
    split: Split = None,
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Leave words, texts and labels out.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository of the Hub private.")
    ] = False,
    dry_run: DryRun = False,
    cache: arguments.Cache = Path("cache"),
    yes: arguments.Yes = False,
    json: arguments.Json = False,
) -> None:
    """Push entries to a folder, a bucket or the Hub; the same command goes on after a kill."""
    paths = _of_splits(maintenance.select_folders(entry, cache), split)
    planned = exchange.Push.of(paths, url, text=not no_text, private=private)
    if dry_run:
        _print_sizes(planned.sizes, json)
    if places := planned.told_places:
        show(f"the manifest tells where things lay on this machine: {', '.join(places)}", err=True)
    if dry_run:
        return
    files = f"{_total(planned.sizes)} to {planned.remote}"
    if url.lower().startswith("hf:"):
        seen = "private if it is new" if private else "public, unless it is private already"
        files = f"{files} ({seen})"
    confirm("push", files, yes)
    address = planned.apply(progress=progress_wanted())
    print_json([{"url": address}]) if json else show(address)


@spread
def pull(
    url: Url,
    *,
    split: Split = None,
    layers: PartLayers = None,
    array: PartArrays = None,
    entry: Annotated[
        str | None, typer.Option("--entry", help="Key of one, where a split has several.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Where you have the text of entries that were pushed without: the folder with the "
            "task's published files, or your own data.",
        ),
    ] = None,
    label: arguments.Label = None,
    dry_run: DryRun = False,
    cache: arguments.Cache = Path("cache"),
    json: arguments.Json = False,
) -> None:
    """Pull entries, or some of their layers, to a cache; the same command goes on after a kill."""
    source = exchange.TextSource(data=data, label=label)
    planned = exchange.Pull.of(
        url,
        cache,
        splits=arguments.split_list(split or ""),
        entry=entry,
        layers=layers,
        arrays=array or (),
        source=source,
    )
    if dry_run:
        _print_sizes({str(path): size for path, size in planned.sizes.items()}, json, "entry")
        return
    total = human_bytes(sum(planned.sizes.values()))
    show(f"pulling {total} from {planned.remote}", err=True)
    print_entries(planned.apply(progress=progress_wanted()), json=json)


def _of_splits(paths: Sequence[Path], splits: str | None) -> list[Path]:
    """Return the folders of some splits, all for None."""
    from probekit.store.layout import split_and_key

    asked = arguments.split_list(splits or "")
    split_of = {path: (split_and_key(path.name) or (path.name,))[0] for path in paths}
    if missing := [split for split in asked if split not in split_of.values()]:
        raise EntryNotFoundError(
            f"--split {splits}: no entry of split {missing[0]!r} is among those that are named, "
            f"which are of {', '.join(dict.fromkeys(split_of.values()))}."
        )
    return [path for path, split in split_of.items() if not asked or split in asked]


def _print_sizes(sizes: Mapping[str, int], json: bool, kind: str = "file") -> None:
    if json:
        print_json([{"bytes": size, kind: name} for name, size in sizes.items()])
        return
    print_table([{"size": human_bytes(size), kind: name} for name, size in sizes.items()])
    show(_total(sizes) if kind == "file" else human_bytes(sum(sizes.values())), err=True)


def _total(sizes: Mapping[str, int]) -> str:
    return f"{human_bytes(sum(sizes.values()))} in {len(sizes)} files"
