"""Finding entries under a cache root."""

import pytest

from probekit.errors import EntryError, EntryNotFoundError, OptionError
from probekit.store.builder import EntryBuilder
from probekit.store.entry import list_entries
from probekit.store.find import Wanted, find_entries
from probekit.store.layout import entry_folder, model_slug
from probekit.store.manifest import read_manifest
from tests.planted import built_once
from tests.store import synthetic


def find(root, model="tiny", task="demo", split="train", entry=None, *, arrays=(), **about):
    wanted = Wanted(**{"model": model, "task": task, "slug": task.replace("/", "-"), **about})
    return find_entries(root, wanted, split, entry, arrays=arrays)


@built_once
def build(root, model="tiny", task="demo", split="train", model_identity=None, **request):
    if model_identity is not None:
        request["model"] = model_identity
    key = synthetic.manifest("zarr", "float16", split, **request).key
    path = entry_folder(root, model, task, split, key)
    return synthetic.build(path, "zarr", "float16", split=split, **request)


def missing(root, *asked, says, **about):
    with pytest.raises(EntryNotFoundError, match=says):
        find(root, *asked, **about)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


def test_what_is_not_there_is_said_with_what_is(root):
    with pytest.raises(EntryNotFoundError) as caught:
        find(root, "org/m", "conll", "train")
    assert str(caught.value) == (
        f"no entry of org/m conll in {root}. Type: probekit extract org/m conll --cache {root}"
    )
    build(root, model="roberta-large", task="conll")
    holds = r"holds roberta-large conll\. "
    missing(root, "roberta-larg", "conll", "train", says=f"{holds}Type: .*roberta-larg ")
    missing(root, "roberta-large", "wnut17", "train", says=f"{holds}.*large wnut17")
    other = r"split dev .*there is: train.*conll --cache .* --split dev"
    missing(root, "roberta-large", "conll", "dev", says=other)


@pytest.mark.parametrize("told", ["extract", [], None])
def test_unfinished(root, told):
    """Who began it may be anything."""
    path = entry_folder(root, "tiny", "demo", "train", "0" * 64)
    with EntryBuilder(path, plan=synthetic.plan("zarr", "float16") | {"made_by": told}):
        pass
    says = r"partial is unfinished\. Run the same `probekit extract` command \(or "
    with pytest.raises(EntryError, match=says):
        find(root)


def test_several_are_listed_and_one_is_chosen(root):
    entries = {pooling: build(root, pooling=pooling) for pooling in ("first", "mean")}
    with pytest.raises(EntryNotFoundError) as caught:
        find(root)
    for pooling, entry in entries.items():
        assert f"{entry.manifest.key[:8]} (pooling {pooling})" in str(caught.value)
        key = entry.manifest.key
        for choice in (key[:5], key[:8], key[:20], key, entry.path.name, str(entry.path)):
            found = find(root, entry=choice)
            assert found.manifest.key == key
    missing(root, entry="0000000000", says="matches 0000000000; there are: train-")


def test_an_entry_that_keeps_all_that_the_others_do_is_meant(root):
    build(root, keep=["cls", "mean"])
    wide = build(root, keep=["cls", "mean", "tokens"])
    assert find(root).manifest == wide.manifest
    build(root, keep=["last"])
    missing(root, says=r"3 entries match.*keep cls,mean,tokens")
    found = find(root, arrays=("tokens", "words"))
    assert found.manifest == wide.manifest


def test_the_whole_split_goes_before_a_part_of_it(root, caplog):
    caplog.set_level("INFO")
    part = build(root, limit=5)
    assert find(root).manifest == part.manifest
    whole = build(root)
    assert find(root).manifest == whole.manifest
    key = part.manifest.key[:8]
    said = (
        "tiny demo: using whole splits, not their first 5 examples (the path of an entry, in place"
    )
    assert sum(said in record.getMessage() for record in caplog.records) == 1
    assert find(root, entry=key).manifest == part.manifest
    build(root, limit=3, format="hdf5")
    build(root, format="hdf5")
    missing(root, says=r"2 entries match.*\((zarr|hdf5)\); \w+ \((zarr|hdf5)\)\.")


def test_of_parts_of_a_split_the_newest_is_meant(root, caplog):
    first, second = build(root, limit=5), build(root, limit=3)
    assert find(root).manifest == first.manifest, "made at once, the larger one"
    file = second.path / "manifest.json"
    file.write_text(file.read_text().replace("2026-01-01T", "2026-01-02T"))
    assert find(root).manifest.limit == 3
    said = "tiny demo: using the newest entry (the first 3 examples), not that of the first 5 "
    assert said in caplog.text
    assert find(root, entry=first.manifest.key[:8]).manifest == first.manifest
    build(root, limit=3, pooling="mean")
    missing(root, says=r"2 entries match.*\(pooling mean\)")


@pytest.mark.parametrize(
    ("request_of", "others"), [({"limit": 5}, {}), ({"pooling": "mean"}, {"pooling": "first"})]
)
def test_an_entry_of_another_split_chooses_the_like_of_it(root, request_of, others):
    build(root, **others)
    chosen = build(root, **request_of)
    build(root, split="dev", **others)
    like = build(root, split="dev", **request_of)
    assert find(root, split="dev", entry=chosen.manifest.key[:8]).manifest == like.manifest


OTHER = synthetic.IDENTITY | {"weights": "1" * 64}


def test_the_model_at_the_path_is_meant_and_not_one_of_its_name(root):
    first, second = build(root), build(root, model_identity=OTHER)
    for entry, identity in ((first, synthetic.IDENTITY), (second, OTHER)):
        for path in ("runs/1/tiny", "elsewhere/copy"):
            found = find(root, path, "demo", "train", identity=identity)
            assert found.manifest == entry.manifest
    missing(root, says=r"2 entries match.*model (0{8}|1{8}), made")  # no such path any more
    third = synthetic.IDENTITY | {"max_length": 8}
    missing(
        root, "./tiny", "demo", "train", identity=third,
        says=r"a different model than the one .* at \./tiny now",
    )  # fmt: skip


def test_own_data_is_found_by_its_text_whatever_it_is_called(root):
    whole, part = build(root, task="mine-1a2b3c4d"), build(root, task="mine-1a2b3c4d", limit=5)
    build(root, task="other-1a2b3c4d", text="of something else")
    texts = {limit: f"of train, {limit}" for limit in (None, 5)}

    def text(split, limit, at_once):
        return texts.get(limit) if split == "train" else None

    found = find(root, "tiny", "renamed.conll", "train", slug="renamed-1a2b3c4d", text=text)
    assert found.manifest == whole.manifest
    texts[None] = "longer by now"
    found = find(root, "tiny", "renamed.conll", "train", slug="renamed-9a9b9c9d", text=text)
    assert found.manifest == part.manifest
    texts.clear()
    missing(
        root, "tiny", "renamed.conll", "train", slug="renamed-9a9b9c9d", text=text,
        says=r"This text of renamed\.conll is not in the cache",
    )  # fmt: skip


def test_tasks_in_folders(root):
    build(root, task="wikiann-de")
    assert find(root, "tiny", "wikiann/de", "train")
    build(root, task="data-3f2a")
    assert find(root, "tiny", "my/data", "train", slug="data-3f2a")


def test_a_task_of_a_cache_that_lies_in_this_one_is_no_entry(tmp_path):
    entry = build(tmp_path / "inner", task="mine-0123abcd")
    assert list_entries(tmp_path) == []
    assert [folder.path for folder in list_entries(tmp_path / "inner")] == [entry.path]


def test_listing(root):
    entry = build(root)
    partial = entry_folder(root, "tiny", "demo", "dev", "f" * 64)
    with EntryBuilder(partial, plan=synthetic.plan("hdf5", "float16")):
        listed = list_entries(root)
    (root / "tiny" / "demo" / "labels").mkdir()
    assert [(e.split, e.key8, e.complete) for e in listed] == [
        ("dev", "ffffffff", False),
        ("train", entry.manifest.key[:8], True),
    ]
    assert listed[1].path == root / "tiny" / "demo" / f"train-{entry.manifest.key[:8]}"
    assert listed[1].nbytes > sum(spec.nbytes for spec in entry.manifest.arrays)
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


def test_each_manifest_is_read_once_for_all_questions(root, monkeypatch):
    """Whose entry it is, of what text, whether the choice names it, which of several is best."""
    for layers in ([0, 1], [0, 1, 2, 4]):
        for split in ("train", "dev"):
            build(root, split=split, layers=layers)
    seen = []

    def counted(path):
        seen.append(path)
        return read_manifest(path)

    monkeypatch.setattr("probekit.store.entry.read_manifest", counted)
    about = {
        "identity": synthetic.IDENTITY,
        "text": lambda split, limit, at_once: f"of {split}, {limit}",
    }
    folders = list_entries(root)
    assert find(root, **about).manifest.split == "train"
    assert sorted(seen) == [folder.path for folder in folders]
    seen.clear()
    key = next(folder.path.name for folder in folders if folder.split == "train")
    assert find(root, split="dev", entry=key, **about).manifest.split == "dev"
    assert sorted(seen) == [folder.path for folder in folders]
