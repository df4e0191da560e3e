"""Rows at predicted positions, their targets and the output head: the language model itself."""

from functools import partial

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BertConfig, BertForMaskedLM

from probekit import open_features
from probekit.errors import BackboneError, DataError, OptionError
from probekit.extraction.maintenance import verify_rows
from probekit.probe.model_parts import OUTPUT_HEAD_FILE, OutputHead
from tests import tiny
from tests.extraction import extracted
from tests.extraction.extracted import key_of
from tests.extraction.passages import passages, write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "train.txt").write_text("\n\n".join(passages(12)) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny.build("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def headless(tmp_path_factory):
    return tiny.build("bert", tmp_path_factory.mktemp("headless"))


@pytest.fixture(scope="module")
def masked(headless, tmp_path_factory):
    """A BERT with its masked-LM head, whose biases are not the zeros of a new model."""
    folder = tmp_path_factory.mktemp("masked")
    AutoTokenizer.from_pretrained(headless).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig.from_pretrained(headless))
        for parameter in model.cls.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    return folder


run = partial(extracted.run, kind="language-modelling", label=None)


def cached_logits(entry):
    """Logits of every predicted row, from the cache alone, and the rows' targets."""
    rows = entry.arrays["predicted"].read(torch.from_numpy(entry.examples.rows))
    head = OutputHead.from_file(entry.backbone / OUTPUT_HEAD_FILE)
    return head(rows[:, -1]), torch.from_numpy(entry.examples.targets.copy()).long()


def blocks_of(entry):
    """Input ids and predicted places of every block, in order."""
    table = entry.examples.table.to_pylist()
    for row in table:
        start = 0
        for size in row["windows"]:
            stop = start + size
            places = [i for i, word in enumerate(row["word_map"][start:stop]) if word >= 0]
            yield torch.tensor([row["subwords"][start:stop]]), places
            start = stop


@pytest.mark.usefixtures("small_units")
def test_next_tokens_are_predicted_as_the_causal_model_does(llama, texts, tmp_path):
    entry = run(llama, texts, tmp_path, max_length=32, every=3)
    found, targets = cached_logits(entry)
    model = AutoModelForCausalLM.from_pretrained(llama).eval()
    logits, following = [], []
    for ids, places in blocks_of(entry):
        with torch.no_grad():
            logits.append(model(input_ids=ids).logits[0, places])
        following += [int(ids[0, place + 1]) for place in places]
        assert places == [place for place in range(1, ids.shape[1] - 1) if place % 3 == 0]
    torch.testing.assert_close(found, torch.cat(logits), rtol=1e-4, atol=1e-4)
    assert targets.tolist() == following
    assert entry.arrays["predicted"].spec.n_row_chunks > 1
    assert entry.manifest.request["masking"] == {"form": "next", "every": 3}
    assert entry.manifest.counts["predicted"] == len(targets) == entry.examples.n_rows.sum()


@pytest.mark.usefixtures("small_units")
def test_passages_share_the_text_that_they_are_of(llama, tmp_path):
    (tmp_path / "train.txt").write_text(" ".join(passages(12)), "utf-8")
    entry = run(llama, tmp_path, tmp_path / "cache", every=1)
    shown = open_features([entry]).view("train").texts
    assert len(shown) > len({id(text) for text in shown}) == len(entry.examples)


def test_masked_tokens_are_predicted_as_the_encoder_does(masked, texts, tmp_path):
    entry = run(masked, texts, tmp_path, max_length=32, passes=2, mask_seed=5)
    found, targets = cached_logits(entry)
    model = BertForMaskedLM.from_pretrained(masked).eval()
    logits = []
    for ids, places in blocks_of(entry):
        with torch.no_grad():
            logits.append(model(input_ids=ids).logits[0, places])
    torch.testing.assert_close(found, torch.cat(logits), rtol=1e-4, atol=1e-4)
    tokenizer = AutoTokenizer.from_pretrained(masked)
    hidden = torch.cat([ids[0, places] for ids, places in blocks_of(entry)])
    share = (hidden == tokenizer.mask_token_id).float().mean()
    assert 0.5 < share < 0.95 and (hidden != targets).float().mean() >= share
    assert entry.manifest.request["masking"] == {
        "form": "masked", "rate": 0.15, "passes": 2, "seed": 5,
    }  # fmt: skip
    assert entry.examples.ids[:3] == ("train-0#0", "train-0#1", "train-1#0")
    once, again, other = (entry.examples.texts[i][0] for i in (0, 1, 2))
    assert once == again != other
    blocks = entry.examples.table["subwords"].to_pylist()
    assert blocks[0] != blocks[1] and len(blocks[0]) == len(blocks[1])


def test_verify_reads_the_very_masks(masked, llama, texts, tmp_path):
    for model in (masked, llama):
        assert verify_rows(run(model, texts, tmp_path), 40).passed


def test_the_key_follows_the_masks(masked, texts, tmp_path):
    base = run(masked, texts, tmp_path)
    assert base.manifest.kind == "language-modelling"
    assert base.manifest.request["keep"] == ["output-head", "predicted"]
    key = partial(key_of, masked, texts, kind="language-modelling", label=None)
    assert key() == key(passes=1, mask_seed=0) == base.manifest.key
    for options in ({"passes": 2}, {"mask_seed": 1}, {"keep": ("predicted",)}, {"tie": "input"}):
        assert key(**options) != base.manifest.key


def test_texts_without_a_prediction(llama, tmp_path):
    (tmp_path / "train.txt").write_text("call\n", "utf-8")
    with pytest.raises(DataError, match=r"no token is predicted, every 500th position \(--every\)"):
        run(llama, tmp_path, tmp_path / "cache", every=500)


def test_a_model_without_an_output_head(headless, texts, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("probekit.extraction.opening.load_backbone", None)
        patch.setattr("probekit.backbone.Inspection.encode", None)
        with pytest.raises(BackboneError, match=r"has no masked-language-model head.*--tie input"):
            run(headless, texts, tmp_path)
    assert not list(tmp_path.iterdir())
    tied = run(headless, texts, tmp_path, tie="input")
    head = OutputHead.from_file(tied.backbone / OUTPUT_HEAD_FILE)
    embeddings = AutoModel.from_pretrained(headless).get_input_embeddings().weight
    assert head.kind == "tied-input" and torch.equal(head.weight, embeddings)
    rows_alone = run(headless, texts, tmp_path, keep=("predicted",))
    assert not (rows_alone.backbone / OUTPUT_HEAD_FILE).exists()


def test_random_weights_predict_over_their_own_embeddings(masked, texts, tmp_path):
    with pytest.raises(
        OptionError, match=r"--random-init: a model with random weights .* --tie input"
    ):
        run(masked, texts, tmp_path, random_init=0)
    entry = run(masked, texts, tmp_path, random_init=0, tie="input")
    own = AutoModel.from_pretrained(masked).get_input_embeddings().weight
    head = OutputHead.from_file(entry.backbone / OUTPUT_HEAD_FILE)
    assert head.weight.shape == own.shape and not torch.allclose(head.weight, own)


def test_an_output_head_for_another_task(masked, tmp_path):
    labelled = write_texts(tmp_path / "labelled", count=4)
    how = {"kind": "sentence", "keep": ("cls", "output-head")}
    entry = run(masked, labelled, tmp_path / "cache", **how)
    assert OutputHead.from_file(entry.backbone / OUTPUT_HEAD_FILE).kind == "masked"
    assert tuple(entry.arrays) == ("cls",)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("masked", {"every": 2}, r"--every is for next-token prediction: .* a causal model"),
        ("llama", {"passes": 2}, r"--passes is for masked .* bidirectional model"),
        ("llama", {"mask_seed": 0}, r"mask_seed is for masked"),
        ("masked", {"overlong": "truncate"}, r"--overlong: language modelling"),
        ("masked", {"pooling": "first"}, r"--pooling says which subwords"),
        ("masked", {"keep": ("cls",)}, r"--keep cls: .* has no such rows. Choose from: predicted"),
        ("masked", {"keep": ("predicted",), "tie": "input"}, r"--tie input .* --keep output-head"),
    ],
)
def test_options_that_mean_nothing(request, texts, tmp_path, model, options, message):
    with pytest.raises(OptionError, match=message):
        run(request.getfixturevalue(model), texts, tmp_path, **options)


def test_options_of_language_modelling_need_such_a_task(masked, tmp_path):
    labelled = write_texts(tmp_path / "labelled", count=4)
    tie = {"tie": "input"}
    for option in ({"passes": 2}, {"every": 2}, {"mask_seed": 0}, {"keep": ("predicted",)}, tie):
        with pytest.raises(OptionError, match=r"is for (language|masked|next)|has no such rows"):
            run(masked, labelled, tmp_path / "cache", kind="sentence", **option)
