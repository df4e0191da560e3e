"""What there is to choose from, as tables and as JSON lines."""

import pytest

from probekit.base.registry import parse
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.tasks import TASKS
from probekit.train.sweeps.protocols import PROTOCOLS
from probekit.tuning import METHODS
from tests.cli.console import done

REGISTRIES = {
    "head": HEADS, "token-head": TOKEN_HEADS, "decoder": DECODERS, "method": METHODS,
    "protocol": PROTOCOLS,
}  # fmt: skip


def test_tasks():
    tasks = done("tasks")
    families = [line.split()[0].split("/")[0] for line in tasks.out.splitlines()[1:-2]]
    assert list(dict.fromkeys(families)) == list(TASKS)
    assert tasks.err == ""
    assert done("tasks", "--json").rows[0]["labels"] == ["ner", "pos", "chunk"]


def test_heads_decoders_and_protocols_as_tables():
    heads = done("heads")
    tables = [block.splitlines() for block in heads.out.split("\n\n")]
    found = {lines[0].split()[0]: [line.split()[0] for line in lines[1:]] for lines in tables[:-1]}
    assert found == {name: list(registry) for name, registry in REGISTRIES.items()}
    assert heads.err == ""
    assert "  n=(1 up to 12 blocks, 2 beyond)  " in heads.out and "=none" not in heads.out


def test_heads_decoders_and_protocols_as_json():
    rows = done("heads", "--json").rows
    for name, registry in REGISTRIES.items():
        assert [row[name] for row in rows if name in row] == list(registry)
    assert {row["head"]: row["lr"] for row in rows if "head" in row} == {
        name: head.learning_rate for name, head in HEADS.items()
    }
    (pooler,) = (row for row in rows if row.get("decoder") == "pooler")
    assert pooler["for"] == ["sentence", "pair"]
    assert pooler["options"] == ["dropout=0.1"]


def test_kinds_of_a_decoder_in_any_set(monkeypatch):
    monkeypatch.setattr(DECODERS["pooler"], "kinds", {"pair", "sentence"})
    (pooler,) = (row for row in done("heads", "--json").rows if row.get("decoder") == "pooler")
    assert pooler["for"] == ["sentence", "pair"]


@pytest.mark.parametrize("registry", ["head", "token-head", "decoder", "method"])
def test_the_options_that_are_listed_can_be_typed(registry):
    rows = [row for row in done("heads", "--json").rows if registry in row]
    assert any(row["options"] for row in rows)
    for row in rows:
        text = ":".join([row[registry], *row["options"]])
        plugins = REGISTRIES[registry]
        assert parse(registry, text, plugins) == plugins[row[registry]]()


def test_treebanks_of_a_folder(here):
    (here / "en_ewt-ud-dev.conllu").write_text("")
    assert done("tasks", "ud", "--data", here, "--json").rows == [{"task": "ud/en_ewt"}]
