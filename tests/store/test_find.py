"""Finding entries under a cache root."""

import pytest

from probekit.errors import EntryError, EntryNotFoundError, OptionError
from probekit.store.builder import EntryBuilder
from probekit.store.find import find_entries
from probekit.store.layout import entry_folder, list_entries, model_slug
from tests.store import synthetic


def build(root, model="tiny", task="demo", split="train", **request):
    key = synthetic.manifest("zarr", "float16", split, **request).key
    path = entry_folder(root, model, task, split, key)
    with EntryBuilder.open(path, plan=synthetic.plan("zarr", "float16")) as builder:
        return synthetic.finish(builder, "zarr", "float16", split=split, **request)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


def test_the_only_one(root):
    entry = build(root)
    assert entry.path == root / "tiny" / "demo" / f"train-{entry.manifest.key[:8]}"
    assert find_entries(root, "tiny", "demo", "train").manifest == entry.manifest


def test_nothing_yet(root):
    expected = (
        f"no entry of org/m conll in {root}. Type: probekit extract org/m conll --cache {root}"
    )
    with pytest.raises(EntryNotFoundError) as caught:
        find_entries(root, "org/m", "conll", "train")
    assert str(caught.value) == expected


def test_near_names_are_shown(root):
    build(root, model="roberta-large", task="conll")
    with pytest.raises(
        EntryNotFoundError, match=r"holds roberta-large conll\. Type: .*roberta-larg "
    ):
        find_entries(root, "roberta-larg", "conll", "train")
    with pytest.raises(EntryNotFoundError, match=r"holds roberta-large conll\. .*large wnut17"):
        find_entries(root, "roberta-large", "wnut17", "train")


def test_another_split(root):
    build(root)
    with pytest.raises(
        EntryNotFoundError, match=r"split dev .*there is: train.*demo --cache .* --split dev"
    ):
        find_entries(root, "tiny", "demo", "dev")


def test_unfinished(root):
    path = entry_folder(root, "tiny", "demo", "train", "0" * 64)
    with EntryBuilder.open(path, plan=synthetic.plan("zarr", "float16")):
        pass
    with pytest.raises(EntryError, match=r"partial is unfinished\. Run the same"):
        find_entries(root, "tiny", "demo", "train")


def test_several_are_listed_and_one_is_chosen(root):
    entries = {pooling: build(root, pooling=pooling) for pooling in ("first", "mean")}
    with pytest.raises(EntryNotFoundError) as caught:
        find_entries(root, "tiny", "demo", "train")
    for pooling, entry in entries.items():
        assert f"{entry.manifest.key[:8]} (pooling {pooling})" in str(caught.value)
        key = entry.manifest.key
        for choice in (key[:5], key[:8], key[:20], key, entry.path.name, str(entry.path)):
            found = find_entries(root, "tiny", "demo", "train", choice)
            assert found.manifest.key == key
    with pytest.raises(EntryNotFoundError, match="matches --entry 0000000000; there are: train-"):
        find_entries(root, "tiny", "demo", "train", "0000000000")


def test_a_choice_holds_for_the_other_splits(root):
    chosen = build(root, pooling="mean")
    build(root, pooling="first")
    dev = {pooling: build(root, split="dev", pooling=pooling) for pooling in ("first", "mean")}
    found = find_entries(root, "tiny", "demo", "dev", chosen.manifest.key[:8])
    assert found.manifest.key == dev["mean"].manifest.key


def test_an_entry_that_keeps_all_that_the_others_do_is_meant(root):
    build(root, keep=["cls", "mean"])
    wide = build(root, keep=["cls", "mean", "tokens"])
    assert find_entries(root, "tiny", "demo", "train").manifest == wide.manifest
    build(root, keep=["last"])
    with pytest.raises(EntryNotFoundError, match=r"3 entries match.*keep cls,mean,tokens"):
        find_entries(root, "tiny", "demo", "train")
    found = find_entries(root, "tiny", "demo", "train", arrays=("tokens", "words"))
    assert found.manifest == wide.manifest
    build(root, keep=["cls", "mean", "tokens"], limit=5)
    with pytest.raises(EntryNotFoundError, match=r"2 entries match.*the whole split"):
        find_entries(root, "tiny", "demo", "train", arrays=("tokens",))


def test_tasks_in_folders(root):
    build(root, task="wikiann-de")
    assert find_entries(root, "tiny", "wikiann/de", "train")
    build(root, task="data-3f2a")
    assert find_entries(root, "tiny", "my/data", "train", task_slug="data-3f2a")


def test_listing(root):
    entry = build(root)
    partial = entry_folder(root, "tiny", "demo", "dev", "f" * 64)
    with EntryBuilder.open(partial, plan=synthetic.plan("hdf5", "float16")):
        listed = list_entries(root)
    (root / "tiny" / "demo" / "labels").mkdir()
    assert [(e.split, e.key8, e.complete) for e in listed] == [
        ("dev", "ffffffff", False),
        ("train", entry.manifest.key[:8], True),
    ]
    stored = sum(spec.nbytes for spec in entry.manifest.arrays)
    assert stored < listed[1].nbytes
    assert list_entries(root / "nowhere") == []


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("roberta-large", "roberta-large"),
        ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers--all-MiniLM-L6-v2"),
        ("/models/mpnet base/", "mpnet-base"),
        ("./x/../checkpoint-100", "checkpoint-100"),
        ("a/b/c", "c"),
        ("SmolLM2-135M.Q4_1.gguf", "SmolLM2-135M.Q4_1"),
    ],
)
def test_model_slugs(model, slug):
    assert model_slug(model) == slug


def test_an_existing_folder_is_a_path(tmp_path, monkeypatch):
    (tmp_path / "org" / "m").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert model_slug("org/m") == "m"
    with pytest.raises(OptionError, match="folder name"):
        model_slug("...")
