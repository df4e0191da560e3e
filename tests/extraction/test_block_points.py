"""Rows at points inside of blocks: extraction against hooks by hand, and what trains on them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer

from probekit import Location, TrainSpec, export, open_features, plot_weights, predict, sweep
from probekit.base.kinds import ARRAYS
from probekit.base.layers import POINTS, ReadPoint
from probekit.errors import DataError, EntryNotFoundError, OptionError, UnknownNameError
from probekit.extraction.maintenance.row_errors import verify_rows
from probekit.features.made_rows import token_rows
from probekit.results.predictions import read_predicted
from probekit.train.saved.directions import about
from tests import tiny
from tests.cli import console
from tests.cli.console import done, refused
from tests.extraction import extracted
from tests.extraction.extracted import entries_of, key_of
from tests.extraction.passages import write_texts

EVERY = tuple(POINTS)
INSIDE = {"attn_out": "attention.output.dense", "mlp_out": "output.dense",
          "mlp_act": "output.dense", "z": "attention.output.dense"}  # fmt: skip
"""The modules of BERT's blocks that read ``mlp_act`` and ``z``, or return the others."""


def by_hand(model, inputs):
    """Return the states (tokens, dim) of one input by point and layer, by hooks on BERT."""
    seen, handles = {}, []
    for point, name in INSIDE.items():
        for layer, block in enumerate(model.encoder.layer, start=1):

            def hook(module, given, out, at=(point, layer)):
                seen[at] = (given[0] if at[0] in ("mlp_act", "z") else out)[0].clone()

            handles.append(block.get_submodule(name).register_forward_hook(hook))
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states
    for handle in handles:
        handle.remove()
    return seen | {("resid_post", n): state[0] for n, state in enumerate(states)}


@pytest.fixture(scope="module")
def words(bert, corpus, tmp_path_factory):
    """The cache of the corpus at every point, and its entries."""
    cache = tmp_path_factory.mktemp("points")
    return cache, entries_of(bert, corpus, cache, ("train", "dev"), points=EVERY)


@pytest.mark.usefixtures("small_units")
def test_rows_of_words_are_what_hooks_see(bert, corpus, tmp_path):
    entry = extracted.run(bert, corpus, tmp_path, points=EVERY, limit=12)
    model, tokenizer = AutoModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    for number in range(len(entry.examples)):
        sentence = list(entry.examples.words(number))
        inputs = tokenizer(sentence, is_split_into_words=True, return_tensors="pt")
        owners = inputs.word_ids()
        seen = by_hand(model, inputs)
        start = int(entry.examples.row_start[number])
        for word in set(owners) - {None}:
            for point in EVERY:
                array = entry.arrays[ReadPoint(point).array("words")]
                row = array.read([start + word])[0].float()
                expected = [seen[point, layer][owners.index(word)] for layer in array.layers]
                torch.testing.assert_close(row, torch.stack(expected), rtol=1e-4, atol=1e-5)
    widths = {ARRAYS[name].point: array.dim for name, array in entry.arrays.items()}
    assert widths == {**dict.fromkeys(EVERY, entry.manifest.dim), "mlp_act": 64}
    assert entry.arrays["words.z"].layers == entry.arrays["words"].layers[1:]
    assert entry.arrays["words.z"].spec.n_row_chunks > 1
    report = verify_rows(entry, 20, model=bert)
    assert report.passed and {"mlp_act.1", 0} <= set(report.layers)


@pytest.mark.parametrize("how", [{}, {"dtype": "int8", "format": "hdf5"}])
def test_rows_of_texts_and_tokens_are_what_hooks_see(tmp_path, how):
    bert = tiny.build("bert", tmp_path / "bert", max_positions=320)
    texts = write_texts(tmp_path / "texts", count=6)
    options = {"kind": "sentence", "text": "text", "label": "label", "points": ("z", "mlp_act")}
    keep = ("mean", "last", "tokens")
    entry = extracted.run(bert, texts, tmp_path / "cache", keep=keep, **options, **how)
    assert {ARRAYS[name].point for name in entry.arrays} == {"z", "mlp_act"}
    model, tokenizer = AutoModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    tokens = token_rows(entry.examples)
    near = {"rtol": 1e-4, "atol": 1e-5} if not how else {"rtol": 0.1, "atol": 0.05}
    for number, (text, _) in enumerate(entry.examples.texts):
        seen = by_hand(model, tokenizer(text, return_tensors="pt"))
        rows = tokens.values[tokens.bounds[number] : tokens.bounds[number + 1]]
        at = [int(entry.examples.pooled_start[number])]
        for point in ("z", "mlp_act"):
            states = torch.stack([seen[point, n] for n in entry.arrays[f"mean.{point}"].layers], 1)
            of_text = {"tokens": states, "mean": states.mean(0)[None], "last": states[-1:]}
            for name, expected in of_text.items():
                places = rows if name == "tokens" else at
                found = entry.arrays[f"{name}.{point}"].read(places).float()
                torch.testing.assert_close(found, expected, **near)


def test_other_names_are_understood_and_told(bert, corpus, caplog):
    ours = key_of(bert, corpus, points=("attn_out", "z"))
    with caplog.at_level("INFO"):
        for names in ("hook_attn_out,attn.hook_z", "z,attentions_output,z"):
            assert key_of(bert, corpus, points=names) == ours
    assert "attn.hook_z is called z here." in caplog.text
    assert key_of(bert, corpus, points="layers_output") == key_of(bert, corpus)
    with pytest.raises(UnknownNameError, match=r"unknown point 'q'.* attn_out, mlp_act"):
        key_of(bert, corpus, points="q")
    with pytest.raises(OptionError, match="belongs to no block and has only"):
        key_of(bert, corpus, points="z", layers="0")


def spec_of(bert, corpus, **options):
    return TrainSpec(
        **{"model": str(bert), "task": str(corpus), "head": "last", "label": "2", **options}
    )


def location_of(cache):
    return Location(cache=cache, kind="tagging")


def test_a_run_reads_its_point(bert, corpus, words, tmp_path):
    cache, (train, _) = words
    features = open_features(bert, corpus, "2", location_of(cache), point="z:head=1")
    width = train.manifest.dim // train.manifest.attention_heads
    view = features.view("train")
    heads = train.arrays["words.z"].read(view.rows)
    assert features.dim == view.array.dim == width
    assert torch.equal(view.array.read(view.rows), heads[..., width : 2 * width])
    assert torch.equal(view.array.read(view.rows[5:8], [2])[:, 0], heads[5:8, 1, width : 2 * width])
    specs = [
        spec_of(bert, corpus, head=head, point=point, **how)
        for head, how in (("mean", {"l2": 1.0}), ("dwatt", {"epochs": 1}))
        for point in ("z:head=1", "hook_attn_out", "mlp_act")
    ]
    records = sweep(
        specs, out=tmp_path / "r.jsonl", location=location_of(cache), save=tmp_path / "heads"
    )
    points = [record.spec["point"] for record in records]
    assert points == ["z:head=1", "attn_out", "mlp_act"] * 2
    assert all(0 not in record.layers for record in records)
    assert len({record.key for record in records}) == len(records)
    again = sweep(specs, out=tmp_path / "r.jsonl", location=location_of(cache))
    assert [record.train_seconds for record in again] == [r.train_seconds for r in records]


BOTH = "attn_out+resid_post"


@pytest.mark.parametrize("how", [{}, {"dtype": "int8", "format": "hdf5"}])
def test_a_head_reads_several_points_at_once(bert, corpus, words, tmp_path, how):
    cache, (train, _) = words
    if how:
        cache = tmp_path
        train, _ = entries_of(bert, corpus, cache, ("train", "dev"), points=EVERY, **how)
    features = open_features(bert, corpus, "2", location_of(cache), point=BOTH)
    view = features.view("train")
    assert view.array.layers == (1001, 1002, 1003, 5000, 5001, 5002, 5003)
    stream, added = (train.arrays[name].read(view.rows) for name in ("words", "words.attn_out"))
    assert torch.equal(view.array.read(view.rows), torch.cat([added, stream], 1))
    mixed = view.array.read(view.rows[3:9], [1003, 5000, 1001])
    assert torch.equal(mixed, torch.stack([added[3:9, 2], stream[3:9, 0], added[3:9, 0]], 1))
    assert np.array_equal(features.numpy("train", 1003).X, added[:, 2].float().numpy())
    for layers in ([3], [1000], [-1], [5004]):
        with pytest.raises(OptionError, match="have numbers of their own"):
            view.array.read(view.rows, layers)
    stored = view.array.read_stored(view.rows[:4], [5002, 1002]).values
    assert torch.equal(stored, torch.stack([stream[:4, 2], added[:4, 1]]))
    every = sweep(
        [spec_of(bert, corpus, point=BOTH, l2=1.0, **own)
         for own in ({"head": "mean"}, {"head": "p32"}, {"head": "p32", "depth": 2})],
        out=tmp_path / "r.jsonl", location=location_of(cache), predictions=True,
    )  # fmt: skip
    assert [record.spec["point"] for record in every] == ["resid_post+attn_out"] * 3
    assert tuple(every[1].weights) == (1001, 1002, 1003, 5001, 5002, 5003) == every[0].layers
    assert every[2].layers == (1001, 1002, 5001, 5002)
    table = done("table", tmp_path / "r.jsonl", "--of", "weights", "--where", "depth=none").out
    assert "attn_out 3" in table and "resid_post 1" in table
    if how:
        return
    rows = torch.cat([stream[:, 1:], added], 1).float().mean(1).numpy()
    names = np.array(features.label_map.names)[view.targets]
    judge = LogisticRegression(C=1 / len(rows), tol=1e-10, max_iter=5_000).fit(rows, names)
    dev = features.view("dev")
    said = judge.predict(dev.array.read(dev.rows)[:, 1:].float().mean(1).numpy())
    kept = read_predicted(every[0].predictions)[1]["dev"]
    assert [kept.names[number] for number in kept.predicted] == list(said)


def test_of_several_entries_that_with_all_points_is_read(bert, corpus, tmp_path):
    for points in (("attn_out",), ("z",)):
        extracted.run(bert, corpus, tmp_path, points=points)
    with pytest.raises(EntryNotFoundError, match=r"none holds words\.attn_out and words\.z"):
        open_features(bert, corpus, "2", location_of(tmp_path), point="attn_out+z")
    both = extracted.run(bert, corpus, tmp_path, points=("attn_out", "z"), limit=8)
    features = open_features(bert, corpus, "2", location_of(tmp_path), point="attn_out+z")
    assert features.entries["train"].path == both.path


def test_rows_of_a_figure_are_points(bert, corpus, words, tmp_path):
    cache, _ = words
    specs = [spec_of(bert, corpus, head="p32", point=point, l2=1.0) for point in (BOTH, None)]
    records = sweep(specs, out=tmp_path / "r.jsonl", location=location_of(cache))
    figure = plot_weights(records)
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sum(row.endswith(", resid_post") for row in rows) == 1
    assert sum(row.endswith(", attn_out") for row in rows) == 1 and len(rows) == 3
    assert figure.axes[0].get_xlim() == (-0.5, 3.5), "layers are numbered as blocks are"
    raw, drawn = records[0].raw_weights, plot_weights(records[:1], raw=True)
    largest = max(map(abs, raw.values()))
    (mesh,) = [one for one in drawn.axes[0].collections if one.get_array() is not None]
    values = np.ma.filled(mesh.get_array(), np.nan)
    expected = {place: value / largest for place, value in raw.items()}
    assert values[0, 1:] == pytest.approx([expected[1000 + n] for n in (1, 2, 3)])
    assert values[1, 1:] == pytest.approx([expected[5000 + n] for n in (1, 2, 3)])


def test_what_several_points_cannot_do_is_refused(bert, corpus, words, tmp_path):
    cache, _ = words
    sweeping = {"out": tmp_path / "r.jsonl", "location": location_of(cache)}
    with pytest.raises(OptionError, match=r"resid_post is 32 wide, mlp_act is 64 wide"):
        sweep([spec_of(bert, corpus, point="mlp_act+resid_post")], **sweeping)
    with pytest.raises(OptionError, match=r"cannot be saved\. Leave --save out"):
        sweep([spec_of(bert, corpus, point=BOTH, head="mean")], save=tmp_path / "head", **sweeping)
    with pytest.raises(UnknownNameError, match="unknown point 'z:head=1'"):
        spec_of(bert, corpus, point="z:head=1+attn_out")
    with pytest.raises(OptionError, match="head last reads a single layer"):
        sweep([spec_of(bert, corpus, point=BOTH, head="last")], **sweeping)
    with pytest.raises(OptionError, match="cannot leave out layers of a head over several points"):
        sweep([spec_of(bert, corpus, point=BOTH, head="p32", l2=1.0)], ablate="refit", **sweeping)
    with pytest.raises(OptionError, match="the embeddings, belongs to no block"):
        spec = spec_of(bert, corpus, point="attn_out+z", layers="0", head="mean")
        sweep([spec], **sweeping)


@pytest.mark.parametrize("point", ["z:head=1", "mlp_out"])
def test_a_saved_head_labels_new_text_as_it_labelled_dev(bert, corpus, words, tmp_path, point):
    cache, (_, dev) = words
    (record,) = sweep(
        [spec_of(bert, corpus, head="mean", point=point, l2=0.1)], out=tmp_path / "r.jsonl",
        location=location_of(cache), save=tmp_path / "head", predictions=True,
    )  # fmt: skip
    kept = read_predicted(record.predictions)[1]["dev"]
    sentences = [list(dev.examples.words(number)) for number in range(len(dev.examples))]
    labelled = [label for labels in predict(tmp_path / "head", sentences) for label in labels]
    assert labelled == [kept.names[label] for label in kept.predicted]


def test_what_a_point_cannot_do_is_refused(bert, corpus, words, made, tmp_path):
    cache, _ = words
    run = lambda **options: sweep(  # noqa: E731
        [spec_of(bert, corpus, **options)], out=tmp_path / "r.jsonl", location=location_of(cache)
    )
    heads = open_features(bert, corpus, "2", location_of(cache)).manifest.attention_heads
    with pytest.raises(OptionError, match=f"has heads 0 to {heads - 1}"):
        run(point=f"z:head={heads}")
    with pytest.raises(OptionError, match="goes on from the residual stream"):
        run(point="z", head="extra-layers")
    with pytest.raises(OptionError, match="belongs to no block"):
        run(point="z", depth=0)
    with pytest.raises(OptionError, match="expected a point, or z:head=N"):
        run(point="mlp_out:head=1")
    with pytest.raises(OptionError, match="--method bitfit runs the model"):
        run(point="z", method="bitfit")
    with pytest.raises(OptionError, match="embeddings, belongs to no block"):
        open_features(bert, corpus, "2", location_of(cache), point="z").numpy("train", 0)
    for dtype in ("float16", "float32"):
        extracted.run(bert, corpus, tmp_path, dtype=dtype)
    with pytest.raises(
        EntryNotFoundError, match=r"2 entries match .* none holds words\.z\. Extract"
    ):
        open_features(bert, corpus, "2", location_of(tmp_path), point="z")
    with pytest.raises((DataError, EntryNotFoundError), match=r"--points resid_post,z"):
        entry = made()
        open_features([entry], label="2", point="z").view("train")


def test_depth_over_all_heads_and_the_figure(bert, corpus, words, tmp_path):
    cache, (train, _) = words
    runs = str(tmp_path / "r.jsonl")
    shared = ("--cache", str(cache), "--label", "2", "--l2", "1", "--out", runs)
    done("depth", bert, str(corpus), "--point", "z:head=all,resid_post,attn_out", *shared)
    from probekit import load_records

    records = load_records([runs])
    heads, blocks = train.manifest.attention_heads, train.manifest.n_blocks
    assert len(records) == heads * blocks + blocks + blocks + 1
    done("plot", "points", runs, "--output", str(tmp_path / "points.png"))
    assert (tmp_path / "points.png").stat().st_size > 1000
    error = refused("depth", bert, str(corpus), "--point", "z:head=x", *shared)
    assert "z:head=3" in error


def test_what_is_shown_and_exported_names_the_point(bert, corpus, words, tmp_path):
    cache, _ = words
    specs = [
        spec_of(bert, corpus, point=point, layers=layer, l2=1.0)
        for point, layer in (("attn_out", "1"), ("mlp_out", "2"))
    ]
    for name, several in (("one", specs[:1]), ("both", specs)):
        folder, out = tmp_path / name, tmp_path / f"{name}.jsonl"
        sweep(several, out=out, location=location_of(cache), save=folder, predictions=True)
    assert "point attn_out:" in done("table", tmp_path / "one.jsonl").out.replace("\n", " ")
    with pytest.raises(OptionError, match="of rows of one kind"):
        export(tmp_path / "both")
    assert about(export(tmp_path / "one"))["attention_head"] is None
    audited = console.run("audit", tmp_path / "one.jsonl", "--cache", cache)
    assert "embeddings" in audited.out
