"""Entries merged, converted, pushed, pulled and imported in a bucket: the bytes of a folder."""

import pytest

from probekit.errors import EntryError, OptionError
from probekit.extraction import plan, units
from probekit.extraction.imports import ImportOptions, import_states
from probekit.extraction.maintenance import (
    Conversion,
    check_chunks,
    copy_entries,
    list_cache,
    merge_shards,
)
from probekit.extraction.transport import Pull, Push, TextSource, transport_form
from probekit.store.backends import zarr_folder
from probekit.store.builder import EntryBuilder
from probekit.store.entry import Entry
from probekit.store.layout import labels_folder
from tests import tiny
from tests.cli.console import refused
from tests.extraction.corpus import write_corpus
from tests.extraction.extracted import interrupted_after
from tests.extraction.imports.exporting import Exporter, vllm_folder, words_of
from tests.hub_server import HubServer
from tests.store.objects.test_s3 import files, run
from tests.store.synthetic import folder_bytes

REPO = "me/states"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return str(write_corpus(tmp_path_factory.mktemp("corpus"), sentences=16))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return str(tiny.build("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module", autouse=True)
def small_units():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "UNIT_BYTES", 12_000)
        patch.setattr(plan, "chunk_rows_for", lambda dim, dtype, rows: 16)
        yield


@pytest.fixture(scope="module")
def made(bert, corpus, tmp_path_factory, small_units):
    """An entry in a folder, as one process extracts it (do not change it)."""
    (entry,) = run(bert, corpus, tmp_path_factory.mktemp("made") / "cache")
    return entry


@pytest.fixture
def there(made, s3):
    """The same in a bucket."""
    ((copy, _),) = copy_entries([made.path], s3)
    return Entry.open(copy.destination.path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with HubServer({}, uploads=tmp_path / "hub") as server:
        server.redirect(monkeypatch, tmp_path / "home")
        yield server


def interrupted_and_again(make, method):
    """Make an entry, broken off after one unit, and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntryBuilder, method, interrupted_after(1, method))
        with pytest.raises(KeyboardInterrupt):
            make()
    return make()


def test_merged(s3, bert, corpus, made, tmp_path):
    """From a bucket and a folder into a bucket, into a folder, and into the cache of a shard."""
    nodes = [s3 / "node1", tmp_path / "node2"]
    for shard, node in enumerate(nodes):
        run(bert, corpus, str(node), f"{shard + 1}/2")
    with pytest.raises(EntryError, match=r"s3://.*/all/.* units are in none of the folders"):
        merge_shards(s3 / "all", nodes[:1])
    entry = interrupted_and_again(lambda: merge_shards(s3 / "all", nodes)[0], "copy_unit")
    assert files(entry) == files(made) == files(merge_shards(tmp_path / "all", nodes)[0])
    (begun,) = nodes[0].glob("*/*/*.partial")
    run(bert, corpus, str(s3 / "other"), "1/2", limit=12)
    (other,) = (s3 / "other").glob("*/*/*.partial")
    with pytest.raises(EntryError, match=r"s3://.* and s3://.* are of different extractions"):
        merge_shards(s3 / "new", [begun, other])
    (entry,) = merge_shards(nodes[0], [s3 / "all"])  # what is whole takes the place of a share
    assert entry.path.is_relative_to(nodes[0]) and files(entry) == files(made)


def test_converted(s3, there, made, tmp_path):
    def small():
        return Conversion.of(there.path, dtype="bfloat16").apply()

    local = Conversion.of(made.path, dtype="bfloat16", root=tmp_path / "bf").apply()
    assert files(interrupted_and_again(small, "write_unit")) == files(local)
    with pytest.raises(OptionError, match=r"written in place, .* or choose a folder"):
        Conversion.of(there.path, format="hdf5").apply()
    assert {row["state"] for row in list_cache(s3)} == {"complete"}, "nothing of it is begun"
    one, other = (
        Conversion.of(entry.path, format="hdf5", root=tmp_path / name).apply()
        for name, entry in (("there", there), ("here", made))
    )
    assert folder_bytes(one.path).keys() == folder_bytes(other.path).keys()
    assert files(one) == files(other)
    back = Conversion.of(one.path, format="zarr", root=s3 / "back").apply()
    assert files(back) == files(made)


def test_pushed_and_pulled(s3, there, made, hub, tmp_path, corpus):
    Push.of([made.path], "me/folder").apply()
    Push.of([there.path], REPO).apply()
    Push.of([there.path], "me/silent", text=False).apply()
    hubs = [folder_bytes(tmp_path / "hub" / "datasets" / repo) for repo in ("me/folder", REPO)]
    for found in hubs:
        del found["README.md"]  # it names the repository
    assert hubs[0] == hubs[1]

    def pull(repo=REPO, to="pulled", **options):
        return Pull.of(repo, s3 / to, **options).apply()[0]

    pulled = interrupted_and_again(pull, "copy_unit")
    assert files(pulled) == files(made)
    labels = labels_folder(pulled.path).below()
    assert labels.keys() == folder_bytes(labels_folder(made.path)).keys() and labels
    two = pull(to="two", layers="1,2", arrays=["words"])
    here = Pull.of(REPO, tmp_path / "two", layers="1,2", arrays=["words"]).apply()[0]
    assert files(two) == files(here) and two.arrays["words"].layers == (1, 2)
    with pytest.raises(OptionError, match="was pushed without its text"):
        pull("me/silent", "silent")
    silent = pull("me/silent", "silent", source=TextSource(data=corpus, label="2"))
    assert check_chunks(silent.path) == check_chunks(made.path)
    assert silent.examples.table["words"] == made.examples.table["words"]


def test_imported(s3, bert, tmp_path):
    texts = [words_of(i) for i in range(16)]
    exporter = Exporter(bert)
    states = vllm_folder(tmp_path / "states", [exporter.tokens(words) for words in texts])

    def make(cache):
        (entry,) = import_states(
            bert, "mine", {"train": states}, cache=cache,
            examples={"train": [(words, ["O"] * len(words)) for words in texts]},
            options=ImportOptions(layer_ids="0:4", dtype="float32"),
        )  # fmt: skip
        return entry

    there = interrupted_and_again(lambda: make(str(s3)), "write_unit")
    assert files(there) == files(make(tmp_path / "cache"))


def test_what_cannot_be(server, s3, there, made, bert, corpus, hub):
    """Each command: no such bucket, states at a URL, HDF5 there, credentials that are refused."""
    missing = f"s3://{s3.parts[1]}-missing/cache"
    Push.of([there.path], REPO).apply()
    states = ("cache", "import", bert, corpus, f"train={s3}/v", "--layer-ids", "0:4")
    assert "s3://" in (said := refused(*states, "--label", "2", "--cache", s3))
    assert "states are read from files of this machine" in said
    assert "in place" in refused("cache", "convert", there.path, "--format", "hdf5")
    assert f"is in {s3} already" in refused("cache", "copy", there.path, s3)
    to = [
        ("merge", made.path.parents[2], "--cache"),
        ("convert", made.path, "--dtype", "int8", "--to"),
        ("copy", made.path),
        ("pull", REPO, "--cache"),
        ("push", made.path.name, REPO, "--yes", "--cache"),
    ]
    for command in to:
        assert "there is no such bucket" in refused("cache", *command, missing)
    server.refuses = True
    of = [("verify", there.path), ("rm", there.path, "--yes"), ("push", there.path, REPO, "--yes")]
    for command in (*of, ("convert", there.path, "--dtype", "int8"), *((*one, s3) for one in to)):
        assert "refused (" in refused("cache", *command), command


def test_pulled_into_shards(hub, made, memory, tmp_path, monkeypatch):
    """An array of very many chunks has objects of all layers, and comes in files of one each."""
    monkeypatch.setattr(zarr_folder, "_MOST_FILES", 1)
    monkeypatch.setattr(transport_form, "FILE_BYTES", 8_000)
    entry = Conversion.of(made.path, dtype="int8", root=tmp_path / "int8").apply()
    names = files(entry)
    assert {"features.zarr/words/c.1.0.0"} <= names.keys()
    assert "features.zarr/words/c.1.1.0" not in names
    Push.of([entry.path], REPO).apply()
    pulled = interrupted_and_again(lambda: Pull.of(REPO, memory).apply()[0], "copy_unit")
    assert files(pulled) == names
