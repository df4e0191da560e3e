"""Lenses, against the model's own head by transformers and a plain least-squares solution."""

import json
import math
import re
import shutil
import struct

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertForMaskedLM

from probekit import Location, lens, lens_of_text, open_features
from probekit.errors import (
    BackboneError,
    DataError,
    EntryError,
    EntryNotFoundError,
    MissingFileError,
    OptionError,
)
from probekit.measures.lens_maps import Lens
from probekit.measures.lenses import _divided
from probekit.results.layer_scores import lens_table
from tests import tiny
from tests.cli.console import done, refused
from tests.extraction.extracted import entries_of
from tests.extraction.passages import passages, write_texts

OWN = {"kind": "language-modelling", "label": None, "max_length": 32}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for split, count in (("train", 40), ("test", 12)):
        (folder / f"{split}.txt").write_text("\n\n".join(passages(count)) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    """A Llama whose final norm is not that of ones."""
    folder = tiny.build("llama", tmp_path_factory.mktemp("llama"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model.model.norm.weight.uniform_(0.3, 2.0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    folder = tiny.build("bert", tmp_path_factory.mktemp("bert"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig.from_pretrained(folder))
        for parameter in model.cls.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def cached(causal, texts, tmp_path_factory):
    """The model, the texts and where they are cached."""
    cache = tmp_path_factory.mktemp("cache")
    entries = entries_of(causal, texts, cache, ("train", "test"), every=2, **OWN)
    return causal, texts, Location(cache=cache, kind="language-modelling"), entries


def by_transformers(model, entry):
    """Return the log-probabilities (layers, rows, vocabulary) that every layer's head gives."""
    found, causal = [], hasattr(model, "lm_head")
    for row in entry.examples.table.to_pylist():
        start = 0
        for size in row["windows"]:
            ids = torch.tensor([row["subwords"][start : start + size]])
            places = [n for n in range(size) if row["word_map"][start + n] >= 0]
            with torch.no_grad():
                states = model(input_ids=ids, output_hidden_states=True).hidden_states
                normed = [model.model.norm(s) if causal else s for s in states[:-1]]
                head = model.lm_head if causal else model.cls
                logits = [head(state)[0, places] for state in (*normed, states[-1])]
            found.append(torch.stack(logits).double().log_softmax(-1))
            start += size
    return torch.cat(found, 1)


@pytest.mark.parametrize("form", ["causal", "masked"])
def test_the_logit_lens_is_the_models_own_head_on_every_layer(form, texts, tmp_path, request):
    folder = request.getfixturevalue(form)
    (entry,) = entries_of(folder, texts, tmp_path, ("test",), **OWN)
    found = lens(folder, texts, location=Location(cache=tmp_path, kind=OWN["kind"]), rows=None)
    model = (AutoModelForCausalLM if form == "causal" else BertForMaskedLM).from_pretrained(folder)
    p = by_transformers(model.eval(), entry)
    targets = torch.from_numpy(entry.examples.targets.copy()).long()
    assert found.rows == found.of_rows == len(targets)
    assert [one.layer for one in found.layers] == list(range(entry.manifest.n_blocks + 1))
    agrees = p.argmax(-1) == p[-1].argmax(-1)
    for one, of_layer in zip(found.layers, p, strict=True):
        own = of_layer.gather(1, targets[:, None])
        ranks = (of_layer > own).sum(1) + 1
        expected = {
            "loss": -own.mean(),
            "log_rank": ranks.double().log().mean(),
            "accuracy": (of_layer.argmax(1) == targets).double().mean(),
            "agreement": (of_layer.argmax(1) == p[-1].argmax(1)).double().mean(),
            "settled": agrees[one.layer :].all(0).double().mean(),
            "divergence": (p[-1].exp() * (p[-1] - of_layer)).sum(1).mean(),
        }
        for name, value in expected.items():
            estimate = getattr(one, name)
            assert estimate.value == pytest.approx(float(value), rel=1e-3, abs=1e-4), name
            assert estimate.low <= estimate.value <= estimate.high
    last = found.layers[-1]
    assert last.divergence.value == 0 and last.agreement.value == 1


def test_a_tuned_lens_is_nearer_to_the_last_layer(cached, tmp_path):
    model, task, location, _ = cached
    options = {"location": location, "rows": None}
    logit = lens(model, task, **options)
    tuned = lens(model, task, lens="tuned", save=tmp_path / "lens", **options)
    for one, other in zip(tuned.layers[:-1], logit.layers[:-1], strict=True):
        assert one.divergence.value < other.divergence.value
    assert set(tuned.strengths) == {0, 1, 2} and all(map(math.isfinite, tuned.strengths.values()))
    assert tuned.layers[-1] == logit.layers[-1]
    again = lens(model, task, lens=str(tmp_path / "lens"), **options)
    assert again.layers == tuned.layers and again.lens == str(tmp_path / "lens")
    shutil.copy(tmp_path / "lens" / "params.pt", tmp_path / "renamed.pt")
    assert lens(model, task, lens=str(tmp_path / "renamed.pt"), **options).layers == tuned.layers
    about = json.loads((tmp_path / "lens" / "config.json").read_text())
    state = torch.load(tmp_path / "lens" / "params.pt", weights_only=True)
    assert set(state) == {f"{n}.{part}" for n in range(3) for part in ("weight", "bias")}
    assert about["num_hidden_layers"] == 3 and about["d_model"] == state["0.bias"].shape[0]


def test_the_weakest_ridge_is_least_squares(cached, tmp_path, monkeypatch):
    """Of the direction of the last layer, up to the scale that the norm takes away."""
    model, task, location, (train, _) = cached
    monkeypatch.setattr("probekit.measures.lenses.STRENGTHS", (1e-9,))
    monkeypatch.setattr("probekit.measures.lenses._HELD_OUT", 0.03)
    lens(model, task, lens="tuned", layers="1", rows=None, save=tmp_path, location=location)
    made = Lens.load(tmp_path, 3, train.manifest.dim)
    rows = train.arrays["predicted"].read(train.examples.rows).double()
    norm = AutoModelForCausalLM.from_pretrained(model).model.norm
    target = (rows[:, -1] / norm.weight.detach()).numpy()
    h = np.column_stack([rows[:, 1].numpy(), np.ones(len(rows))])
    expected = h @ np.linalg.lstsq(h, target, rcond=None)[0]
    found = made(1, rows[:, 1].float()).double().numpy()
    cosines = (
        (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    )
    assert np.median(cosines) > 0.99


def test_rows_are_drawn_and_layers_chosen(cached):
    model, task, location, _ = cached
    found = lens(model, task, layers="0,-1", rows=50, location=location)
    assert found.rows == 50 < found.of_rows and [one.layer for one in found.layers] == [0, 3]
    assert found == lens(model, task, layers="0,-1", rows=50, location=location)
    text = lens_table(found).text()
    assert "logit lens, 50 of" in text and "rank: geometric mean" in text
    assert json.loads(json.dumps(found.to_json()))["layers"][1]["agreement"]["value"] == 1


class Evil:
    def __reduce__(self):
        return print, ("never",)


def test_what_cannot_be_read_is_said(cached, tmp_path, capfd):
    model, task, location, _ = cached
    options = {"location": location}
    with pytest.raises(MissingFileError, match=r"there is no .*params\.pt"):
        lens(model, task, lens=str(tmp_path), **options)
    for name, content in (
        ("dict", {"a": 1}),
        ("evil", Evil()),
        ("wide", {"0.weight": torch.eye(3)}),
    ):
        (tmp_path / name).mkdir()
        torch.save(content, tmp_path / name / "params.pt")
        with pytest.raises(OptionError, match=r"is no lens|Give a lens that was fitted on"):
            lens(model, task, lens=str(tmp_path / name), **options)
    (tmp_path / "dict" / "params.pt").write_bytes(struct.pack("<q", 7))
    with pytest.raises(OptionError, match="is no lens"):
        lens(model, task, lens=str(tmp_path / "dict"), **options)
    one_layer = {"0.weight": torch.eye(64), "0.bias": torch.zeros(64)}
    torch.save(one_layer, tmp_path / "wide" / "params.pt")
    with pytest.raises(OptionError, match=r"maps the layers 0 .* layers 0 to 3"):
        lens(model, task, lens=str(tmp_path / "wide"), **options)
    state = {f"{n}.weight": torch.full((32, 32), torch.nan) for n in range(3)}
    torch.save(state, tmp_path / "wide" / "params.pt")
    with pytest.raises(OptionError, match="not finite"):
        lens(model, task, lens=str(tmp_path / "wide"), **options)
    with pytest.raises(MissingFileError, match="there is no"):
        lens(model, task, lens=str(tmp_path / "wide" / "params.pt" / "no"), **options)
    with pytest.raises(OptionError, match="of layers before the last"):
        lens(model, task, lens="tuned", layers="-1", save=tmp_path / "last", **options)
    assert "never" not in capfd.readouterr().out
    with pytest.raises(OptionError, match="score another split"):
        lens(model, task, lens="tuned", fit_on="test", **options)
    with pytest.raises(OptionError, match="--save writes a lens that is fitted"):
        lens(model, task, save=tmp_path / "no", **options)
    with pytest.raises(OptionError, match="--rows 0: expected at least 1"):
        lens(model, task, rows=0, **options)
    with pytest.raises(EntryNotFoundError, match="split dev"):
        lens(model, task, split="dev", **options)


def test_labels_are_no_tokens(causal, tmp_path):
    texts = write_texts(tmp_path / "texts", count=4)
    how = {"kind": "sentence", "text": "text", "label": "label"}
    entries_of(causal, texts, tmp_path / "cache", ("train",), **how)
    location = Location(cache=tmp_path / "cache", kind="sentence", text="text")
    with pytest.raises(DataError, match="--kind language-modelling"):
        lens(causal, texts, split="train", location=location)


def test_the_command_prints_a_line_per_layer(cached, tmp_path):
    model, task, location, entries = cached
    shared = (model, task, "--cache", location.cache, "--rows", "40")
    said = done("lens", *shared, "--lens", "tuned", "--save", tmp_path / "lens").out
    assert "tuned lens, 40 of" in said
    assert [line.split()[0] for line in said.splitlines()[2:6]] == ["0", "1", "2", "3"]
    rows = done("lens", *shared, "--lens", tmp_path / "lens", "--json").rows
    assert len(rows[0]["layers"]) == 4
    (row,) = done("lens", entries[1].path, "--rows", "40", "--json").rows
    assert row["split"] == "test" and len(row["layers"]) == 4
    for mistyped in ("nothing", "my texts.jsonl", "my texts.ndjson.gz"):
        assert "no such" in refused("lens", model, tmp_path / mistyped, "--cache", location.cache)


@pytest.mark.parametrize("form", ["causal", "masked"])
def test_a_text_is_read_place_by_place(form, cached, tmp_path, request):
    folder = request.getfixturevalue(form)
    text = " ".join(passages(1)[0].split()[:9])
    found = lens_of_text(folder, text, top=3)
    model = (AutoModelForCausalLM if form == "causal" else BertForMaskedLM).from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        p = model.eval()(input_ids=ids).logits[0].softmax(1)
    assert found.causal == (form == "causal") and len(found.tokens) == ids.shape[1]
    for place, of_layers in enumerate(found.positions):
        last = of_layers[-1]
        assert [one.layer for one in of_layers] == list(range(len(of_layers)))
        best = p[place].topk(3)
        words = {tokenizer.decode([number]) for number in best.indices.tolist()}
        assert len(words & set(last.tokens)) > 1, "bfloat16 may swap two that are nearly tied"
        assert last.probabilities == pytest.approx(best.values.tolist(), rel=2e-2)
        after = place + 1 if found.causal else place
        if after == ids.shape[1]:
            assert last.rank is None and last.probability is None
            continue
        assert last.probability == pytest.approx(float(p[place, ids[0, after]]), rel=2e-2)
        assert abs(last.rank - int((p[place] > p[place, ids[0, after]]).sum()) - 1) < 4  # bfloat16


def test_the_command_reads_a_text(causal, masked):
    said = done("lens", causal, passages(1)[0][:40], "--layers", "0,-1")
    assert "the rank of the next token" in said.out and "0 = emb" in said.out
    assert "the rank of the token itself" in done("lens", masked, "one two", "--layers", "1").out
    (row,) = done("lens", causal, "one two", "--json").rows
    assert (
        len(row["positions"]) == len(row["tokens"]) and len(row["positions"][0][0]["tokens"]) == 5
    )
    assert "the folder that --save wrote" in refused("lens", causal, "a b", "--lens", "tuned")
    assert "tokens; " in refused("lens", causal, "one two " * 2000)


def test_the_page_of_a_text_has_a_row_per_layer(causal, cached, tmp_path):
    page = tmp_path / "lens.html"
    text = passages(1)[0][:40] + " <b> "
    done("lens", causal, text, "--page", page)
    shown, found = page.read_text(encoding="utf-8"), lens_of_text(causal, text)
    rows = re.findall(r"<tr><th scope=\"row\">(\d+)[^<]*</th>(.*)</tr>", shown)
    assert [int(layer) for layer, _ in rows] == [3, 2, 1, 0]
    cells = [re.findall("<td.*?</td>", row) for _, row in rows]
    assert {len(row) for row in cells} == {len(found.tokens)}
    for row, of_layer in zip(cells, list(zip(*found.positions, strict=True))[::-1], strict=True):
        framed = ["hit" in cell for cell in row]
        assert framed == [one.rank == 1 for one in of_layer]
    assert "<b>" not in shown and "&lt;" in shown and "the next token" in shown
    model, task, location, _ = cached
    said = refused("lens", model, task, "--cache", location.cache, "--page", page)
    assert "--page shows a text" in said
    assert "FILE.html" in refused("lens", causal, "one two", "--page", tmp_path / "lens.txt")


def test_embeddings_in_place_of_a_head_are_refused(texts, tmp_path):
    folder = tiny.build("bert", tmp_path / "headless")
    entries_of(folder, texts, tmp_path / "cache", ("test",), tie="input", **OWN)
    location = Location(cache=tmp_path / "cache", kind=OWN["kind"])
    with pytest.raises(EntryError, match="the model was not trained with it"):
        lens(folder, texts, location=location)


def test_a_final_norm_that_is_not_understood_is_refused(causal, monkeypatch):
    monkeypatch.setattr("probekit.backbone.model.read_final_norm", lambda *given: None)
    with pytest.raises(BackboneError, match="does not understand its final norm"):
        lens_of_text(causal, "one two")


def test_readings_of_a_text_under_other_masks_are_one_text(masked, texts, tmp_path):
    entries_of(masked, texts, tmp_path, ("train", "test"), passes=4, **OWN)
    where = {"location": Location(cache=tmp_path, kind=OWN["kind"]), "rows": None}
    found = lens(masked, texts, lens="tuned", **where)
    assert found.over.startswith("12 ")
    view = open_features(str(masked), str(texts), location=where["location"]).view("train")
    fit, held_out = _divided(view, np.arange(len(view)), 0)
    names = np.repeat(view.text_names, view.lengths)
    assert len(fit) + len(held_out) == len(view)
    assert not set(names[fit]) & set(names[held_out])
