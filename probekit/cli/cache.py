"""``probekit cache``: list, describe, verify, remove and locate entries."""

from pathlib import Path
from typing import Annotated

import typer

from probekit.cli import options
from probekit.errors import OptionError

app = typer.Typer(no_args_is_help=True, help="List, describe, verify and remove cache entries.")

Entries = Annotated[
    list[str],
    typer.Argument(metavar="ENTRY...", help="Paths of entries, or MODEL TASK [SPLIT]."),
]


@app.command("ls")
def list_entries(cache: options.Cache = Path("cache"), json: options.Json = False) -> None:
    """List all entries, unfinished ones included."""
    from probekit.cli.output import print_table
    from probekit.maintenance import list_cache

    rows = list_cache(cache)
    if not rows:
        typer.echo(f"no entries in {cache}. `probekit extract MODEL TASK` makes one.", err=True)
    print_table(rows, json=json)


@app.command()
def info(entry: Entries, cache: options.Cache = Path("cache"), json: options.Json = False) -> None:
    """Describe entries: what was asked for, what was stored, and from where."""
    from probekit.cli.output import print_entries, print_pairs
    from probekit.maintenance import describe, select_folders
    from probekit.store.entry import Entry

    for path in select_folders(entry, cache):
        if json:
            print_entries([Entry.open(path)], json=True)
        else:
            print_pairs(describe(path))


@app.command()
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
    model: Annotated[
        str | None, typer.Option("--model", help="Where the model lies now, if it has moved.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random rows.")] = 0,
    cache: options.Cache = Path("cache"),
    json: options.Json = False,
) -> None:
    """Recompute every checksum and, with --rows N, compare rows with a fresh pass."""
    from probekit.cli.output import print_row_errors, progress_wanted
    from probekit.maintenance import check_chunks, select_folders, verify_against, verify_rows
    from probekit.store.entry import Entry

    if against is not None and not rows:
        raise OptionError("--against compares rows: say how many with --rows N.")
    passed = True
    for path in select_folders(entry, cache):
        chunks = check_chunks(path, progress=progress_wanted())
        typer.echo(f"{path}: all {chunks:,} chunks match their checksums", err=True)
        if rows and against is not None:
            report = verify_against(Entry.open(path), Entry.open(against), rows, seed=seed)
        elif rows:
            report = verify_rows(Entry.open(path), rows, model=model, seed=seed)
        else:
            continue
        print_row_errors(report, json=json)
        passed = passed and report.passed
    if not passed:
        raise typer.Exit(1)


@app.command()
def rm(
    entry: Entries,
    cache: options.Cache = Path("cache"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove entries, finished or not; nothing else, whatever it is called."""
    from probekit.maintenance import Removable, select_folders
    from probekit.quantities import human_bytes

    paths = select_folders(entry, cache)
    if yes and len(entry) == 1 and len(paths) > 1:
        raise OptionError(
            f"{entry[0]} has {len(paths)} entries, of all its tasks: name a TASK as well, or leave "
            "--yes out to be asked of each."
        )
    for found in [Removable.of(path) for path in paths]:
        state = "" if found.complete else "unfinished, "
        what = f"{found.path} ({state}{human_bytes(found.nbytes)})"
        if yes:
            typer.echo(f"removing {what}", err=True)
        else:
            typer.confirm(f"Remove {what}?", abort=True, err=True)
        found.remove()
        typer.echo(f"removed {found.path}", err=True)


@app.command()
def path(entry: Entries, cache: options.Cache = Path("cache")) -> None:
    """Print the paths of the entries that MODEL TASK [SPLIT] names."""
    from probekit.maintenance import select_folders

    for found in select_folders(entry, cache):
        typer.echo(str(found))
