"""``probekit cache push`` and ``pull``: entries to and from a folder, a bucket or the Hub."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from probekit import exchange  # its names load on first use, as do those of `maintenance`
from probekit.base.notices import human_bytes
from probekit.cli import arguments
from probekit.cli.output import print_entries, print_json, print_table, progress_wanted, show
from probekit.cli.spread import spread
from probekit.errors import EntryNotFoundError
from probekit.extraction import maintenance

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
    bool, typer.Option("--dry-run", help="List the files with their sizes, and do nothing else.")
]


def push(
    entry: Annotated[
        list[str],
        typer.Argument(metavar="ENTRY...", help="Paths of entries, or MODEL TASK [SPLIT]."),
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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
    what = f"{_total(planned.sizes)} to {planned.place}"
    if url.startswith("hf:"):
        seen = "private if it is new" if private else "public, unless it is private already"
        what = f"{what} ({seen})"
    if yes:
        show(f"pushing {what}", err=True)
    else:
        typer.confirm(f"Push {what}?", abort=True, err=True)
    address = planned.apply(progress=progress_wanted())
    print_json([{"url": address}]) if json else show(address)


@spread
def pull(
    url: Url,
    *,
    split: Split = None,
    layers: Annotated[
        str | None, typer.Option("--layers", help="These layers alone: 8,12 or 0:25:4.")
    ] = None,
    array: Annotated[
        list[str] | None,
        typer.Option("--array", help="This array alone, such as words; may be repeated."),
    ] = None,
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
    label: Annotated[
        str | None, typer.Option("--label", help="For your own data: the label column.")
    ] = None,
    own: arguments.OwnData,
    dry_run: DryRun = False,
    cache: arguments.Cache = Path("cache"),
    json: arguments.Json = False,
) -> None:
    """Pull entries, or some of their layers, to a cache; the same command goes on after a kill."""
    source = exchange.TextSource(data=data, label=label, **asdict(own))
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
        _print_sizes({str(path): size for path, size in planned.sizes.items()}, json)
        return
    total = human_bytes(sum(planned.sizes.values()))
    show(f"pulling {total} from {planned.place}", err=True)
    print_entries(planned.apply(progress=progress_wanted()), json=json)


def _of_splits(paths: Sequence[Path], splits: str | None) -> list[Path]:
    """Return the folders of some splits, all for None."""
    from probekit.store.layout import split_and_key

    asked = arguments.split_list(splits or "")
    found = {path: (split_and_key(path.name) or (path.name,))[0] for path in paths}
    if missing := [split for split in asked if split not in found.values()]:
        raise EntryNotFoundError(
            f"--split {splits}: no entry of split {missing[0]!r} is among those that are named, "
            f"which are of {', '.join(dict.fromkeys(found.values()))}."
        )
    return [path for path, split in found.items() if not asked or split in asked]


def _print_sizes(sizes: Mapping[str, int], json: bool) -> None:
    if json:
        print_json([{"bytes": size, "file": name} for name, size in sizes.items()])
        return
    print_table([{"size": human_bytes(size), "file": name} for name, size in sizes.items()])
    show(_total(sizes), err=True)


def _total(sizes: Mapping[str, int]) -> str:
    return f"{human_bytes(sum(sizes.values()))} in {len(sizes)} files"
