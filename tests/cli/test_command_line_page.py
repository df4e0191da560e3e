"""What ``docs/command-line.md`` says of config files, exit codes, JSON and exports is so."""

import ast
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
import typer.main

from probekit import TrainedHead
from probekit.cli import app
from probekit.results.trackers import scores_of
from tests.cli.console import done, refused, run
from tests.planted import plant_all
from tests.results.samples import make_record

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text("utf-8")


def blocks(language, text=PAGE):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def table(section):
    """The rows of a section's table, as cells."""
    body = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in body.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def commands():
    """Every command by its words."""
    root, found = typer.main.get_command(app), {}
    for name, command in root.commands.items():
        for below, one in getattr(command, "commands", {"": command}).items():
            found[f"{name} {below}".strip()] = one
    return found


@pytest.mark.parametrize("text", blocks("toml"), ids=lambda text: text.splitlines()[0])
def test_every_config_file_is_read(text, here):
    file, *lines = re.match(r"# (\S+):  (.+)", text).groups()
    (here / file).write_text(text)
    for line in lines[0].split(" && "):
        words = shlex.split(line)
        assert words[0] == "probekit" and file in words
        if words[1] == "extract":  # which would look for the model
            continue
        # the file is understood: what is missing is the cache
        assert "no entry of" in refused(*words[1:], "--cache", "empty")


def interrupted(monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("probekit.extraction.maintenance.list_cache", interrupt)
    return run("cache", "ls")


OCCURRENCES = {
    0: [lambda patch: run("heads")],
    1: [
        lambda patch: run("table", "gone.jsonl"),
        lambda patch: run("cache", "rm", next(Path("cache").glob("*/*/dev-????????")), text="n\n"),
    ],
    2: [
        lambda patch: run("trian"),
        lambda patch: run("train"),
        lambda patch: run("train", "m", "t", "--workers", "two"),
        lambda patch: run(),
    ],
    130: [interrupted],
}


@pytest.mark.parametrize("code", OCCURRENCES)
def test_every_documented_exit_code_occurs(code, monkeypatch, here):
    plant_all(here / "cache")
    assert [int(row[0]) for row in table("Exit codes")] == list(OCCURRENCES)
    for occurs in OCCURRENCES[code]:
        assert occurs(monkeypatch).code == code


def test_no_other_exit_code_is_in_the_code():
    found = {0}  # typer.Exit without a code
    for path in (ROOT / "probekit" / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and re.search(
                r"\b(Exit|_?exit|SystemExit)$", ast.unparse(node.func)
            ):
                found |= {argument.value for argument in node.args}
    assert found <= {int(row[0]) for row in table("Exit codes")}


def test_every_command_with_json_is_in_the_table():
    with_json = {
        name
        for name, command in commands().items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    listed = {name for row in table("JSON") for name in re.findall(r"`([a-z ]+)`", row[0])}
    assert listed == with_json


def test_an_exported_probe_is_read_as_written(here):
    plant_all(here / "cache")
    done("train", "planted", "conll", "--head", "p32", "--l2", "1", "--save", "ner")
    Path("ner.npz").write_text("mine")
    assert "ner.npz is there, and probekit did not write it" in refused("export", "ner")
    Path("ner.npz").unlink()
    done("export", "ner")
    (said,) = done("export", "ner", "--json").rows
    assert said["path"] == str(here / "ner.npz") and said["layers"] == [1, 2, 3]
    head = TrainedHead.from_pretrained("ner")
    text, *_ = blocks("python")
    space = {}
    text = text.replace('"minilm-l6", "demo-ner"', '"planted", "conll"')
    exec(compile(text, "command-line.md", "exec"), space)
    with space["found"] as found:
        labels = found["classes"][space["logits"].argmax(1)]
    assert labels.tolist() == head.predict(torch.from_numpy(space["states"]).float())
    shown = done("export", "ner", "-o", "x/y.safetensors")
    assert shown.out == "x/y.safetensors\n"
    assert "-o x/y: choose a name that ends in .npz or" in refused("export", "ner", "-o", "x/y")
    assert refused("export", "cache").startswith("cache: no saved head here")


def test_the_probes_of_all_depths_are_saved_and_exported(here):
    plant_all(here / "cache")
    done("depth", "planted", "conll", "--l2", "1", "--save", "depths")
    (said,) = done("export", "depths", "--json").rows
    assert said["layers"] == [0, 1, 2, 3] and said["one_probe"] is False
    with np.load("depths.npz") as found:
        assert found["bias"].shape == (4, 5)


def test_the_example_tracker_works_as_written(tmp_path):
    (source,) = (block for block in blocks("python", EXTENDING) if "class Lines" in block)
    space = {"__name__": "example_lines"}
    exec(compile(source, "extending.md", "exec"), space)
    tracker, record = space["Lines"]().open(tmp_path / "r.jsonl"), make_record("p32", 1)
    tracker.start("p32, seed 1", record, {"head": "p32"})
    tracker.log({"dev/loss": 1.0}, 3)
    tracker.finish(scores_of(record))
    (line,) = (tmp_path / "r.lines").read_text().splitlines()
    assert json.loads(line) == {"run": "p32, seed 1", "head": "p32", **scores_of(record)}
