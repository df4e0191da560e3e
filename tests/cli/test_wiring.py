"""Every option of every command reaches the library: typing it changes what the library is told."""

import functools
import pkgutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main

from probekit.cli import app
from tests.cli.console import run

MAINTENANCE = "probekit.extraction.maintenance"
SELECT, RECORDS = f"{MAINTENANCE}.select_folders", "probekit.cli.record_reading.read_records"
SWEEP, BASELINES = "probekit.train.sweeps.run.sweep", "probekit.train.baselines.run_baselines"
LOCATION = "probekit.features.location.Location"
TRAIN = (
    f"{LOCATION}.task", f"{LOCATION}.check_cached", "probekit.features.open_features", SWEEP,
    BASELINES,
)  # fmt: skip
FIGURE = "probekit.plots.style.save_figure"
COMPARE = (
    RECORDS,
    *(f"probekit.results.comparison.{name}" for name in ("choose_run", "compare", "compare_all")),
)
REMOVAL = (
    f"{MAINTENANCE}.finish_removals", SELECT, f"{MAINTENANCE}.plan_reductions",
    f"{MAINTENANCE}.Removable.of", f"{MAINTENANCE}.find_stale",
)  # fmt: skip
READ = "probekit.cli.record_reading.read_records"
OVERTHINKING = "probekit.results.overthinking"
EXTRACTION = "probekit.extraction"

CALLS = {
    **dict.fromkeys(
        ("extract m conll", "extract m conll --keep tokens"),
        (
            "probekit.tasks.get_task",
            *(f"{EXTRACTION}.{n}" for n in ("open_session", "forecast", "extract_splits")),
        ),
    ),
    **dict.fromkeys((f"{name} m own.csv --out r" for name in ("train", "sweep", "depth")), TRAIN),
    "suite truth m": ("probekit.train.sweeps.run_suite.run_suite",),
    **dict.fromkeys(
        ("predict head data.csv", "predict head data.csv --tokens"),
        (
            "probekit.train.saved.head.TrainedHead.from_pretrained",
            "probekit.train.saved.head.file_items",
            "probekit.train.saved.labelling.predict",
            "probekit.train.saved.labelling.predict_tokens",
        ),
    ),
    **{
        f"plot {kind} r": (RECORDS, f"probekit.plots.{kind}.plot_{kind}", FIGURE)
        for kind in ("weights", "depth", "learning", "classes")
    },
    "table r": (RECORDS, "probekit.cli.record_reading.asked_table"),
    "table r --of depth": (RECORDS, "probekit.results.tables.depth_table"),
    "table r --of weights": (RECORDS, "probekit.results.tables.measure_table"),
    **dict.fromkeys(("compare a b", "compare a b --all"), COMPARE),
    "export head": (
        "probekit.train.saved.directions.export",
        "probekit.train.saved.directions.write_directions",
    ),
    "merge head folder": ("probekit.train.saved.published_run.merge_run",),
    "audit r": (
        "probekit.results.comparison.choose_run",
        "probekit.train.baselines.auditing.audit",
    ),
    "report r": (
        "probekit.results.load_records",
        "probekit.results.select",
        "probekit.page.report_page.check_report",
        "probekit.page.report_page.write_report",
    ),
    "geometry m conll": (
        "probekit.measures.measuring.geometry",
        "probekit.measures.measuring.change",
    ),
    "structure m ud/en_x": ("probekit.measures.structural.structure",),
    "lens m wikitext2": ("probekit.measures.lenses.lens",),
    "overthinking r": (READ, f"{OVERTHINKING}.overthinking"),
    "exit r": (READ, f"{OVERTHINKING}.early_exit"),
    "tasks ud": ("probekit.tasks.variants_of",),
    "cache ls": (f"{MAINTENANCE}.list_cache",),
    **dict.fromkeys(("cache info m", "cache path m"), (SELECT,)),
    "cache verify m --rows 9": (
        SELECT, f"{MAINTENANCE}.check_chunks", "probekit.store.entry.Entry.open",
        f"{MAINTENANCE}.verify_rows", f"{MAINTENANCE}.verify_against",
    ),
    "cache merge s": (f"{MAINTENANCE}.merge_shards",),
    **dict.fromkeys(("cache rm", "cache rm m"), REMOVAL),
    "cache copy s d": (f"{MAINTENANCE}.select_sources", f"{MAINTENANCE}.copy_entries"),
    "cache convert s --format zarr": (
        f"{MAINTENANCE}.select_sources",
        f"{MAINTENANCE}.convert_entries",
    ),
    "cache import m conll s": ("probekit.extraction.imports.import_states",),
    "cache push m u": (SELECT, "probekit.exchange.Push.of"),
    "cache pull u": ("probekit.exchange.Pull.of",),
}  # fmt: skip
"""By a line that is typed, the functions that it calls in turn; the last one's work is not done."""

ANSWERS = {
    "get_task": None, "Location.check_cached": None,
    "Location.task": SimpleNamespace(columns=(), kind="tagging"),
    "open_session": ("session", "chosen"),
    "open_features": SimpleNamespace(manifest=SimpleNamespace(n_blocks=3)),
    "select_folders": [Path("m/t/dev-12345678"), Path("m/t/train-12345678")], "check_chunks": 5,
    "finish_removals": False,
    **{f"plot_{kind}": None for kind in ("weights", "depth", "learning", "classes")},
    **dict.fromkeys(("from_pretrained", "file_items", "open", "choose_run", "select_sources")),
    **{name: [] for name in ("read_records", "load_records", "select", "check_report")},
    "directions.export": "directions",
}  # fmt: skip
"""What a function answers that is not the last one, or else the command ends with it."""

VALUES = {
    "array": "tokens", "best_on": "dev", "every": "2", "head": "mean",
    "part": "encoder", "tie": "input",
    "device_map": "auto", "decoder": "crf", "extract pooling": "first", "import pooling": "first",
    "layers": "1", "fraction": "0.5", "hold_out": "0.25", "label": "x", "select": "cv:3",
    "normalize": "layernorm", "pooling": "cls", "method": "bitfit", "seeds": "2", "shots": "3",
    "engine": "ray:gpus_per_worker=0.5", "protocol": "p32", "shard": "1/2", "split": "dev",
    "style": "csv", "track": "wandb", "output": "figure.svg", "export output": "x.safetensors",
    "sort": "size", "of": "depth",
    "dtype": "int8", "compute_dtype": "bfloat16", "format": "hdf5", "keep": "words",
    "overlong": "error", "quantize": "4bit", "special_tokens": "absent", "last_layer": "raw",
    "metric": "loss", "along": "epoch", "overlay": "model", "where": "shots=8",
    "layer_ids": "0:4", "examples": "7", "tolerance": "0.02", "start": "saved", "fit": "adam",
    "width": "3", "only": "last:2", "token_head": "max", "lr": "0.5",
    "skip": "blank", "control": "3", "page": "x.html", "points": "z", "point": "z",
}  # fmt: skip
"""What is typed for an option where a number or a word does not do."""

SHOWN = {"json", "style", "yes", "dry_run", "width", "title"}
SHOWN_BY = {"geometry": {"output"}, "overthinking": {"output"}, "lens": {"page"}}
SHOWN_BY["exit"] = SHOWN_BY["overthinking"]
"""Options of what is printed, drawn and asked: the tests of each command type them."""

ROOT = typer.main.get_command(app)
GROUPS = {"": ROOT.commands, "cache": ROOT.commands["cache"].commands}
BY_COMMAND: dict[tuple[str, str], list[str]] = {}
for one in CALLS:
    group, name, *_ = one.split() if one.startswith("cache") else ("", *one.split())
    BY_COMMAND.setdefault((group, name), []).append(one)


def told(line, *words):
    """What the functions are told by a line, each of which is replaced."""
    calls = []

    def replaced(name, function):
        @functools.wraps(function)
        def record(*args, **options):
            calls.append(f"{name} {args} {options}")
            for known in (name, ".".join(name.split(".")[-2:]), name.rpartition(".")[2]):
                if known in ANSWERS:
                    return ANSWERS[known]
            raise InterruptedError

        return record

    # all before the first is replaced: a module imported meanwhile would keep what stands in
    functions = {name: pkgutil.resolve_name(name) for name in CALLS[line]}
    with pytest.MonkeyPatch.context() as patch:
        for name, function in functions.items():
            patch.setattr(name, replaced(name, function))
        patch.setattr("probekit.engines.ray_engine.find_spec", lambda package: True)
        run(*line.split(), *words)
    return calls


def typed(command, option):
    """The words of an option with a value that is not its default."""
    if option.is_flag:
        return (option.secondary_opts if option.default else option.opts)[-1:]
    return [option.opts[-1], VALUES.get(f"{command} {option.name}") or VALUES.get(option.name, "3")]


def test_no_command_is_left_out():
    every = {(group, name) for group, found in GROUPS.items() for name in found}
    assert every - BY_COMMAND.keys() == {("", name) for name in ("cache", "card", "demo", "heads")}


@pytest.mark.parametrize(("group", "name"), BY_COMMAND)
def test_every_option_changes_what_the_library_is_told(group, name, here):
    usual = {line: told(line) for line in BY_COMMAND[group, name]}
    assert any(usual.values())
    shown = SHOWN | SHOWN_BY.get(name, set())
    unheard = [
        one.opts[-1]
        for one in GROUPS[group][name].params
        if one.param_type_name == "option" and one.name not in shown
        if all(told(line, *typed(name, one)) in ([], calls) for line, calls in usual.items())
    ]
    assert unheard == []
