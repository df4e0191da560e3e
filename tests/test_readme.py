"""What the README shows: its head works as written, its commands parse, its files exist."""

import re
import shlex
from pathlib import Path

import pytest
import torch
import typer.main

from probekit.cli import app
from probekit.heads import HEADS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    found = [line.partition("probekit ")[2] for line in lines if "probekit " in line]
    return [shlex.split(text, comments=True) for text in found if not text.startswith("/")]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_every_command_parses(arguments):
    name, *rest = arguments
    root = typer.main.get_command(app)
    context = root.make_context("probekit", [name], resilient_parsing=True)
    command = root.get_command(context, name)
    while hasattr(command, "commands"):
        command, *rest = command.commands[rest[0]], *rest[1:]
    command.make_context(name, rest, parent=context)


def test_the_example_head_works_as_written():
    source = next(block for block in blocks("python") if "HeadSpec" in block)
    space = {"__name__": "example_head"}
    exec(compile(source, "README.md", "exec"), space)
    head = space["Max"]().build((1, 2, 3), 4, torch.Generator())
    z = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head(z), z.amax(1))
    weights = head.layer_weights(z).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(5))
    # Channel c of row r goes to the layer that holds its maximum.
    wins = (z.argmax(1)[0] == 2).float().mean()
    assert weights[0, 2] == wins


def test_the_table_of_heads_is_the_registry():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|.*?\| ([\d,]+) \| (\d+e-\d+) \|", README, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(HEADS)
    for name, count, rate in rows:
        with torch.device("meta"):
            layers = tuple(range(25)) if HEADS[name].default_layers == "all" else range(1, 25)
            layers = (24,) if HEADS[name].default_layers == "-1" else tuple(layers)
            head = HEADS[name]().build(layers, 1024, torch.Generator())
        assert sum(p.numel() for p in head.parameters()) == int(count.replace(",", ""))
        assert HEADS[name].learning_rate == float(rate)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_to_files_of_the_repository(path):
    assert (ROOT / path).is_file()
