"""``probekit extract`` and ``probekit cache``: make, list, verify, merge and remove entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from probekit.base.notices import human_bytes
from probekit.base.registry import Panel, option
from probekit.base.replacing import matching
from probekit.cli import arguments
from probekit.cli.output import (
    print_entries,
    print_forecast,
    print_json,
    print_pairs,
    print_row_errors,
    print_table,
    progress_wanted,
    show,
)
from probekit.cli.spread import spread
from probekit.errors import EntryNotFoundError, OptionError
from probekit.extraction import maintenance  # its names load on first use
from probekit.extraction.request_options import ExtractOptions

app = typer.Typer(
    no_args_is_help=True, help="List, describe, verify, copy, convert, share and remove entries."
)

Entries = Annotated[
    list[str],
    typer.Argument(metavar="ENTRY", help="Paths of entries, or MODEL TASK [SPLIT]."),
]


def list_entries(
    cache: arguments.Cache = Path("cache"),
    sort: Annotated[
        str, typer.Option("--sort", help="By name, size (largest first) or created (newest first).")
    ] = "name",
    json: arguments.Json = False,
) -> None:
    """List all entries, unfinished ones included, and what is left over of others.

    The parts of a split share a row, but not with --json.
    """
    rows = maintenance.list_cache(cache, sort, join=not json)
    if not rows:
        show(f"no entries in {cache}. `probekit extract MODEL TASK` makes one.", err=True)
    elif json:
        print_json(rows)
    else:
        days = [{**row, "created": row["created"][:10]} for row in rows]
        print_table([{k: value for k, value in row.items() if k != "bytes"} for row in days])
        show(_totals(rows), err=True)


def _totals(rows: Sequence[Mapping[str, Any]]) -> str:
    left = [row["bytes"] for row in rows if row["state"].startswith(maintenance.LEFT_OVER)]
    size = sum(row["bytes"] for row in rows) - sum(left)
    count = len(rows) - len(left)
    total = f"{count} {'entry' if count == 1 else 'entries'}, {human_bytes(size)}"
    over = f"{len(left)} left over, {human_bytes(sum(left))}"
    return f"{total}; {over}: `probekit cache rm --stale` removes them" if left else total


def info(
    entry: Entries, cache: arguments.Cache = Path("cache"), json: arguments.Json = False
) -> None:
    """Describe entries: what was asked for, what was stored, and from where."""
    from probekit.store.entry import Entry

    for path in maintenance.select_folders(entry, cache):
        if json:
            print_entries([Entry.open(path)], json=True)
        else:
            print_pairs(maintenance.describe(path))


@spread
def verify(
    entry: Entries,
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            min=0,
            help="Also compare N random rows, and the most and least padded, with a float32 pass.",
        ),
    ] = 0,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Compare the rows with this entry's instead."),
    ] = None,
    cache: arguments.Cache = Path("cache"),
    *,
    run: arguments.ModelRun,
    json: arguments.Json = False,
) -> None:
    """Check every file and checksum and, with --rows N, compare rows with a fresh pass."""
    from probekit.store.entry import Entry

    if against is not None and not rows:
        raise OptionError("--against compares rows: say how many with --rows N.")
    passed = True
    for path in maintenance.select_folders(entry, cache):
        chunks = maintenance.check_chunks(path, progress=progress_wanted())
        show(f"{path}: all {chunks:,} chunks match their checksums", err=True)
        if not rows:
            continue
        if against is not None:
            reference = Entry.open(arguments.cache_root(against))
            report = maintenance.verify_against(Entry.open(path), reference, rows)
        else:
            report = maintenance.verify_rows(Entry.open(path), rows, **vars(run))
        print_row_errors(report, json=json)
        passed = passed and report.passed
    if not passed:
        raise typer.Exit(1)


def merge(
    source: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE", help="Caches of shards, or folders of entries they have begun."
        ),
    ] = None,
    cache: arguments.Cache = Path("cache"),
) -> None:
    """Complete in --cache what `extract --shard` has begun, there and in other caches."""
    entries = maintenance.merge_shards(
        cache, [arguments.cache_root(root) for root in source or ()], progress=progress_wanted()
    )
    show(f"merged into {cache} (--cache ROOT names another)", err=True)
    print_entries(entries)


def rm(
    entry: Annotated[
        list[str] | None,
        typer.Argument(metavar="ENTRY", help="Paths of entries, or MODEL TASK [SPLIT]."),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option("--layers", help="Remove these layers alone: 1, 0,4,8 or 1:6."),
    ] = None,
    array: Annotated[
        list[str] | None,
        typer.Option("--array", help="Remove this array alone, such as tokens; may be repeated."),
    ] = None,
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Remove what no entry needs any more (see `cache ls`)."),
    ] = False,
    cache: arguments.Cache = Path("cache"),
    yes: arguments.Yes = False,
) -> None:
    """Remove entries, finished or not, or some of their layers or arrays; nothing else."""
    reduced = layers is not None or bool(array)
    if stale and (entry or reduced):
        raise OptionError("--stale is for all of the cache: leave out entries, layers and arrays.")
    if stale:
        _remove_stale(cache, yes)
        return
    if not entry:
        raise OptionError("say which ENTRY: its path, or MODEL TASK [SPLIT]; or give --stale.")
    left = maintenance.finish_removals(
        [*matching(cache, "*/*"), *(Path(name).parent for name in entry)]
    )
    try:
        paths = maintenance.select_folders(entry, cache)
    except EntryNotFoundError:
        if not left:
            raise
        show("finished what an earlier `probekit cache rm` had begun to remove", err=True)
        return
    if yes and len(entry) == 1 and len(paths) > 1:
        raise OptionError(
            f"{entry[0]} has {len(paths)} entries, of all its tasks: name a TASK as well, or leave "
            "--yes out to be asked of each."
        )
    if reduced:
        _reduce(paths, layers, array or (), yes)
    else:
        _remove(paths, yes)


def _remove(paths: Sequence[Path], yes: bool) -> None:
    for entry in [maintenance.Removable.of(path) for path in paths]:
        state = "" if entry.complete else "unfinished, "
        confirm("remove", f"{entry.path} ({state}{human_bytes(entry.nbytes)})", yes)
        entry.remove()
        show(f"removed {entry.path}", err=True)


def _reduce(paths: Sequence[Path], layers: str | None, arrays: Sequence[str], yes: bool) -> None:
    # --layers 0,4 --array tokens: "layers 0,4 and array tokens"
    parts = [f"layers {layers}"] * (layers is not None) + [f"array {name}" for name in arrays]
    for reduction in maintenance.plan_reductions(paths, layers, arrays):
        before = human_bytes(reduction.nbytes + reduction.freed)
        size = f"{human_bytes(reduction.freed)} of {before}"
        confirm("remove", f"{' and '.join(parts)} of {reduction.entry.path} ({size})", yes)
        left = reduction.apply()
        show(f"removed; the rest is {left.path} ({human_bytes(reduction.nbytes)})", err=True)


def _remove_stale(cache: Path, yes: bool) -> None:
    leftovers = maintenance.find_stale(cache)
    if not leftovers:
        show(f"nothing is left over in {cache}.", err=True)
        return
    for stale in leftovers:
        show(f"{stale.path}: {stale.what} ({human_bytes(stale.nbytes)})", err=True)
    total = human_bytes(sum(stale.nbytes for stale in leftovers))
    confirm("remove", f"all {len(leftovers)} ({total})", yes)
    for stale, gone in maintenance.remove_stale(cache, leftovers):
        outcome = "removed" if gone else "left alone, since it is held or needed:"
        show(f"{outcome} {stale.path}", err=True)


def confirm(verb: str, objects: str, yes: bool) -> None:
    """Say what is about to be removed or pushed, and how large it is; ask first unless told not to.

    Args:
        verb: ``remove`` or ``push``.
        objects: what is, with its size.
        yes: do not ask.
    """
    if yes:
        show(f"{verb.removesuffix('e')}ing {objects}", err=True)
    else:
        typer.confirm(f"{verb.capitalize()} {objects}?", abort=True, err=True)


def path(entry: Entries, cache: arguments.Cache = Path("cache")) -> None:
    """Print the paths of the entries that MODEL TASK [SPLIT] names."""
    for folder in maintenance.select_folders(entry, cache):
        show(str(folder))


@dataclass(frozen=True, kw_only=True)
class EntryOptions:
    """Which text is read, and what becomes of entries that are there."""

    PANEL = Panel.ENTRIES
    data: arguments.Data = None
    split: str | None = option(None, "Splits, e.g. train,dev,test; all by default.", Panel.FIRST)
    cache: arguments.Cache = Path("cache")
    overwrite: bool = option(
        False, "Replace an entry of the same key, finished or not, whatever its options were."
    )
    name: str | None = option(None, "Call the model NAME in the cache, and as MODEL from then on.")
    revision: str | None = option(None, "Hub branch, tag or commit.")


@dataclass(frozen=True, kw_only=True)
class ExtractedEntryOptions(EntryOptions):
    """Where the model runs besides, and over which share of the text."""

    device: arguments.Device = "auto"
    device_map: arguments.DeviceMap = None
    shard: str | None = option(
        None,
        "Extract the second of four shares, for 2/4; other processes extract the others, at any "
        "time, into the same cache or for `cache merge`.",
        Panel.TEXTS,
        metavar="I/N",
    )
    trust_remote_code: arguments.TrustRemoteCode = False


DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Write nothing: print rows, bytes, time, and after how many epochs the cache has paid "
        "for itself, from short measurements on this machine.",
    ),
]


@spread
def extract(
    model: arguments.Model,
    task: arguments.Task,
    *,
    entry: ExtractedEntryOptions,
    text: arguments.OwnData,
    label: arguments.Label = None,
    crew: arguments.Crew,
    json: arguments.Json = False,
    dry_run: DryRun = False,
    shared: ExtractOptions,
) -> None:
    """Run MODEL over TASK's text once and write every layer's hidden states to the cache."""
    from probekit.backbone.checkpoint import named_path
    from probekit.tasks import get_task

    named_path(model)  # slips are told before torch is imported
    named = get_task(task, text.parse(), label)
    from probekit.extraction import ExtractTarget, Shard, extract_splits, forecast, open_session

    engine = crew.chosen()
    options = vars(entry).copy()
    split, shard = options.pop("split"), options.pop("shard")
    asked = ExtractTarget(
        model=model,
        task=task,
        own=text.parse(),
        label=label,
        splits=None if split is None else tuple(arguments.split_list(split)),
        restart=entry.overwrite,
        shard=Shard.asked(shard, crew.workers),
        workers=crew.workers,
        **options,
    )
    session, splits = open_session(asked, shared, task=named, progress=progress_wanted())
    if dry_run:
        print_forecast(forecast(session, splits), json=json)
    else:
        print_entries(extract_splits(session, splits, engine=engine), json=json)
