"""What the documents show: the examples of extensions work, the tables are the registries."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from transformers import BertConfig, BertModel

import probekit
from probekit.base.layers import parse_layers
from probekit.errors import DataError, RecordError
from probekit.metrics import encode_gold
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import BackboneFacts
from probekit.probe.normalization import NORMALIZATIONS, RowFacts
from probekit.tasks import TASKS
from probekit.train.sweeps.protocols import PROTOCOLS
from probekit.train.sweeps.specs import TrainSpec
from tests.documents.code_blocks import blocks
from tests.results.samples import make_record

ROOT = Path(__file__).parent.parent
EXTENDING = (ROOT / "docs" / "extending.md").read_text("utf-8")


def reference(page):
    return (ROOT / "docs" / "reference" / f"{page}.md").read_text("utf-8")


def example(name):
    """Run the example that defines ``name``, and return it."""
    found = (one.text for one in blocks(EXTENDING) if one.language == "python")
    (source,) = (text for text in found if re.search(rf"\b{name}\b", text))
    space = {"__name__": f"example_{name.lower()}"}
    exec(compile(source, "extending.md", "exec"), space)
    return space[name]


def rows_of(page):
    """Return the cells of a page's first table, as ``code`` or words."""
    table = re.search(r"(^\|.*\n)+", reference(page), re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table]


def test_the_example_head_works_as_written():
    head = example("Max")().build((1, 2, 3), 4, torch.Generator())
    z = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head(z), z.amax(1))
    weights = head.layer_weights(z).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(5))
    # Channel c of row r goes to the layer that holds its maximum.
    wins = (z.argmax(1)[0] == 2).float().mean()
    assert weights[0, 2] == wins


def test_the_example_decoder_works_as_written():
    decoder = example("Cosine")(scale=3.0).build(4, 2, torch.Generator().manual_seed(0))
    h = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    expected = torch.cosine_similarity(h[:, None], decoder.weight[None], dim=-1)
    torch.testing.assert_close(decoder(h), 3 * expected)
    assert decoder.predict(decoder(h)).tolist() == expected.argmax(1).tolist()


def test_the_example_normalisation_works_as_written():
    normalization = example("UnitNorm").fit((), (0, 2), RowFacts())
    z = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).transpose(0, 1)
    expected = z / torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    torch.testing.assert_close(normalization(z), expected)
    torch.testing.assert_close(normalization.cut((2,))(z[:, 1:]), expected[:, 1:])


def test_the_normalisations_are_all_named():
    assert f"--normalize {'|'.join(NORMALIZATIONS)}`" in reference("heads")
    (option,) = (field for field in fields(TrainSpec) if field.name == "normalize")
    assert f": {', '.join(NORMALIZATIONS)}." in option.metadata["help"]


def test_the_example_metric_works_as_written():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    names = ("a", "b", "c", "d")  # d is never gold, and never predicted
    labels = [[names[i] for i in rng.integers(0, 3, n)] for n in (4, 0, 7, 20)]
    gold, predicted = encode_gold(labels, names), rng.integers(0, 3, 31)
    scorer = example("MacroF1")(gold)
    expected = metrics.f1_score(gold.ids, predicted, average="macro")
    assert scorer.score(predicted) == {"macro-f1": pytest.approx(expected)}
    once = scorer.resampler(predicted)(np.ones((1, 4)))
    assert once == pytest.approx([expected])


def test_the_example_figure_works_as_written():
    heads = ("last", "dwatt")
    records = [
        make_record(head, seed, diverged=head == "dwatt") for head in heads for seed in (0, 1)
    ]
    figure = example("plot_params")(records)
    (axes,) = figure.axes
    markers = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in markers[::2]] == [1001, 1004]
    assert "2 seeds; 2 of 4 runs diverged" in figure.legends[0].get_title().get_text()
    with pytest.raises(RecordError, match="run `probekit train`"):
        example("plot_params")([])


def test_the_example_method_works_as_written():
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "vocab_size": 9}
    model = BertModel(BertConfig(num_hidden_layers=1, **sizes)).requires_grad_(False)
    values = example("Norms")().attach(model, torch.Generator())
    learning = {name for name, value in model.named_parameters() if value.requires_grad}
    assert learning == set(values) and all("LayerNorm" in name for name in values)
    assert len(values) == 6  # scale and shift of the embeddings' norm, and of two in the block


def test_the_example_task_works_as_written(tmp_path):
    (tmp_path / "val.txt").write_text("i feel; well;joy\nnot today;sadness\n", "utf-8")
    task = example("emotion")()
    split = task.read("dev", tmp_path)
    assert [one.text for one in split.examples] == ["i feel; well", "not today"]
    assert split.labels["emotion"] == (("joy",), ("sadness",))
    (tmp_path / "test.txt").write_text("no label here\n", "utf-8")
    with pytest.raises(DataError, match=r"test.txt, line 1: expected TEXT;LABEL"):
        task.read("test", tmp_path)


def test_the_table_of_heads_is_the_registry():
    rows = rows_of("heads")
    assert [row[0].strip("`") for row in rows] == list(HEADS)
    config = BertConfig(
        hidden_size=1024, intermediate_size=4096, num_attention_heads=16, num_hidden_layers=24
    )
    facts = BackboneFacts(n_blocks=24, dim=1024, config=config.to_dict())
    for name, _, layers, count, rate, _ in rows:
        spec = HEADS[name.strip("`")]
        numbers = parse_layers(spec.default_layers, 24)
        assert {"L": (24,), "1..L": tuple(range(1, 25)), "0..L": tuple(range(25))}[
            layers
        ] == numbers
        with torch.device("meta"):
            head = spec().bind(facts).build(numbers, 1024, torch.Generator())
        assert sum(p.numel() for p in head.parameters()) == int(count.replace(",", ""))
        assert spec.learning_rate == float(rate)


def test_the_table_of_decoders_is_the_registry():
    words = {
        "words": {"tagging"}, "spans": {"span"}, "texts": {"sentence", "pair"},
        "label sets": {"multilabel"},
        "numbers": {"regression"}, "tokens": {"language-modelling"},
    }  # fmt: skip
    rows = rows_of("decoders")
    assert [row[0].strip("`") for row in rows] == list(DECODERS)
    for name, labels, *_ in rows:
        kinds = set().union(*(words[word] for word in re.findall("|".join(words), labels)))
        assert kinds == DECODERS[name.strip("`")].kinds


def test_the_table_of_protocols_is_the_registry():
    rows = rows_of("protocols")
    assert [re.match(r"`(.*?)`", row[0])[1] for row in rows] == list(PROTOCOLS)
    for (_, heads, decoder, optimizer, rate, batch, epochs, seeds), protocol in zip(
        rows, PROTOCOLS.values(), strict=True
    ):
        options = {"optimizer": "adamw", "schedule": "linear", **protocol.options}
        if "epochs" not in options:  # it takes no steps
            assert (epochs, int(seeds)) == ("none", protocol.seeds)
            continue
        assert heads == ", ".join(protocol.heads)
        assert (decoder == "default, pooler for texts of encoders") == (not protocol.decoders)
        named = set(protocol.decoders.values()) or {"pooler"}  # the pooler of ``as_published``
        assert set(re.findall(r"\b(crf|mlp|pooler)\b", decoder)) == named
        assert optimizer.lower().startswith(f"{options['optimizer']}, {options['schedule']}")
        assert (float(rate), int(batch)) == (options["lr"], options["batch_size"])
        assert (int(epochs.split()[0]), int(seeds)) == (options["epochs"], protocol.seeds)


def test_the_table_of_tasks_is_the_registry():
    named = re.findall(r"`([^`]+)`", " ".join(row[0] for row in rows_of("tasks")))
    families = dict.fromkeys(name.partition("/")[0] for name in named)
    variants = {name.removeprefix("glue/") for name in named}
    assert set(TASKS) <= set(families)
    assert set(families) - set(TASKS) == {"qqp", "qnli", "rte", "mnli"}
    assert set(TASKS["glue"].variants) <= variants


def test_every_public_name_has_its_place_in_the_reference():
    named = re.findall(r"^::: probekit\.(\w+)$", reference("api"), re.MULTILINE)
    assert sorted(named) == sorted(set(probekit.__all__) - {"__version__"})


def test_the_citation_has_what_the_format_asks_for():
    # cff-version, message, title and authors are required (Citation File Format 1.2.0)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    known = {"cff-version", "message", "title", "type", "authors", "version", "license"}
    released = set(cited) & {"date-released"}  # before the first release there is no date
    assert set(cited) == known | {"keywords", "abstract", "references"} | released
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == probekit.__version__
    assert cited["license"] == project["license"]
    assert cited["authors"] == project["authors"]
    assert cited["message"] and all(isinstance(word, str) for word in cited["keywords"])
    notes = " ".join(paper["notes"] for paper in cited["references"])
    heads = set(re.findall(r"[a-z][a-z0-9-]+", re.sub(r"heads? |\(.*?\)", "", notes)))
    assert heads == set(HEADS) - {"last"}, "each paper says which heads are its own"
