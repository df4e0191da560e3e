"""Files that say they hold more than they can: refused before memory is taken for it."""

import gzip
import json
import resource
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.backbone import inspect_backbone, load_backbone
from probekit.errors import BackboneError, DataError, EntryError, RecordError
from probekit.results import load_records
from probekit.results.log import append_record
from probekit.results.summaries.wording import layers_text
from probekit.store.tables import read_table
from probekit.tasks import TextOptions, get_task
from probekit.tasks.formats.fields import load_parquet
from probekit.tasks.formats.text_lines import read_bytes
from tests.results.samples import make_record
from tests.saved_heads import changed_records
from tests.tiny import build

SECONDS, BYTES = 5.0, 10**9


@pytest.fixture(autouse=True)
def frugal():
    """Fail where a test takes long, or much memory."""
    start, before = time.process_time(), peak()
    yield
    assert peak() - before < BYTES and time.process_time() - start < SECONDS


def peak():
    """Return the most bytes of memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def equal_rows(path, value, rows, stored):
    """Write one value over and over: a few bytes, whatever it is."""
    column = pa.DictionaryArray.from_arrays(pa.repeat(0, rows).cast("int32"), [value])
    pq.write_table(pa.table({"text": column}), path, store_schema=stored)
    return path


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(("value", "rows"), [("a b", 2_000_000), ("a b " * 2**16, 4400)])
def test_rows_that_are_all_the_same(tmp_path, value, rows, stored):
    """Two million short texts, or 4,400 of a quarter of a mebibyte, in a file of some kilobytes."""
    file = equal_rows(tmp_path / "train.parquet", value, rows, stored)
    assert file.stat().st_size < 2**21
    with pytest.raises(DataError, match=r"train\.parquet: not a readable .* bytes hold"):
        load_parquet(file)
    with pytest.raises(EntryError, match="bytes hold"):
        read_table(file, pa.schema([("text", pa.string())]))


def test_rows_of_an_honest_file(tmp_path):
    texts = [f"text {n}" for n in range(200_000)]
    pq.write_table(pa.table({"text": texts, "label": ["yes"] * len(texts)}), tmp_path / "a.parquet")
    assert load_parquet(tmp_path / "a.parquet").values["text"] == texts


def test_a_packed_file_of_nothing(tmp_path):
    file = tmp_path / "train.tsv.gz"
    with gzip.open(file, "wb", compresslevel=9) as packed:
        for _ in range(112):
            packed.write(bytes(2**20))
    with pytest.raises(DataError, match=r"unpacked it is more than .* nearly all the same"):
        read_bytes(file)


def configured(folder, **changes):
    """Save a tiny BERT, and change its configuration."""
    build("bert", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return str(folder)


@pytest.mark.parametrize("size", ["intermediate_size", "vocab_size", "max_position_embeddings"])
def test_a_configuration_wider_than_its_weights(tmp_path, size):
    model = configured(tmp_path, **{size: 10**9})
    with pytest.raises(BackboneError, match=r"needs [\d,]+ weights, but its weight files"):
        inspect_backbone(model)


def test_a_random_model_wider_than_memory(tmp_path, monkeypatch):
    model = configured(tmp_path, vocab_size=2**21, hidden_size=2**11)
    monkeypatch.setattr("probekit.backbone.loading.available_memory", lambda: 10**10)
    with pytest.raises(BackboneError, match=r"GB in float32, and only .* of memory are free"):
        load_backbone(inspect_backbone(model, random_init=0), compute_dtype="float32")


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**6},
        {"num_labels": 10**6},
        {"type_vocab_size": 10**6},
        {"num_hidden_groups": 10**9},
        {"num_layers_per_stack": 10**9},
        {"inner_group_num": 10**9},
        {"block_sizes": [5 * 10**7, 1]},
        {"attention_types": [[["global"], 3 * 10**8]]},
        {"num_local_experts": 10**6},
    ],
)
@pytest.mark.parametrize("random_init", [None, 0])
def test_a_configuration_of_no_model_is_refused_before_it_is_built(tmp_path, changes, random_init):
    model = configured(tmp_path, **changes)
    with pytest.raises(BackboneError, match="and no model has more than"):
        inspect_backbone(model, random_init=random_init)


def test_large_numbers_that_take_no_memory_are_none_of_it(tmp_path):
    numbers = {"rope_theta": 10**7, "model_max_length": 10**30, "seed": 1234567890}
    numbers |= {"shuffle_buffer_size": 10**9, "entity_vocab_size": 1_200_000}
    nested = {"rope_parameters": {"rope_theta": 5 * 10**7}}
    assert inspect_backbone(configured(tmp_path, **numbers, **nested)).info.n_blocks == 3


def test_a_configuration_without_blocks(tmp_path):
    with pytest.raises(BackboneError, match="says that it has no blocks"):
        inspect_backbone(configured(tmp_path, num_hidden_layers=0))


def test_a_card_whose_parts_repeat_each_other(tmp_path, caplog):
    repeated = [f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 9)]
    classes = "dataset_info: {features: [{name: label, dtype: {class_label: {names: [a, *x8]}}}]}"
    lines = ["---", "x0: &x0 [l,l,l,l,l,l,l,l,l,l]", *repeated, classes, "---"]
    (tmp_path / "README.md").write_text("\n".join(lines))
    (tmp_path / "train.csv").write_text("text,label\na,0\nb,1\n")
    task = get_task(str(tmp_path), TextOptions(kind="sentence"))
    assert task.read("train").labels == {"label": (("0",), ("1",))}
    assert "the class names there cannot be read (ValueError: it has YAML aliases" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": [10**12]},
        {"layers": [65535], "depth": 65535},
        {"eval_score": 1e308},
        {"layers": [-1]},
        {"depth": 10**12},
        {"weights": {str(10**12): 0.5}},
        {"class_weights": {"LOC": {str(10**12): 0.5}}},
        {"left_out": 10**12},
        {"epochs": 10**30},
        {"eval_score": 10**400},
    ],
)
def test_a_record_of_no_run(tmp_path, changes):
    append_record(tmp_path / "records.jsonl", make_record())
    changed_records(tmp_path / "records.jsonl", **changes)
    with pytest.raises(RecordError, match=f"line 1: record field '{next(iter(changes))}'"):
        load_records(tmp_path / "records.jsonl")


def test_layers_far_apart():
    assert layers_text([0, 4, 5, 6, 60_000]) == "0, 4-6, 60000"
