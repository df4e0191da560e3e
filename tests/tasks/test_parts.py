"""Texts that are too large to be read at once: their parts are what all of it is, in order."""

import gzip
import io
import random
import string
from pathlib import Path

import datasets
import pandas
import pytest

from probekit.errors import DataError
from probekit.tasks import Split
from probekit.tasks.split_parts import SplitParts, read_split
from tests.small_parts import make_small
from tests.tasks.own_files import get_task, json_lines, task_of, write

DRAWN = random.Random(0)
TEXTS = [
    f"text {n} " + "".join(DRAWN.choices(string.ascii_letters + "é\u2028 ", k=DRAWN.randrange(90)))
    for n in range(300)
]
ODD = [text + '\nand "another" line;' * (n % 3 == 0) + "," for n, text in enumerate(TEXTS)]
LABELS = [DRAWN.choice(("good", "bad")) for _ in TEXTS]


def frame(texts: list[str]) -> pandas.DataFrame:
    return pandas.DataFrame({"text": texts, "label": LABELS})


def saved(path: Path) -> Path:
    datasets.Dataset.from_pandas(frame(ODD)).save_to_disk(path)
    return path


def shards(path: Path) -> Path:
    for n in range(6):
        rows = frame(ODD)[n * 50 : n * 50 + 50]
        write(path / f"train-{n:05}-of-00006.jsonl", json_lines(*rows.to_dict("records")))
    packed = path / "train-00005-of-00006.jsonl"
    packed.with_name(packed.name + ".gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    return path


def table(texts: list[str], **how: object) -> str:
    text = io.StringIO()
    frame(texts).to_csv(text, **({"index": False} | how))
    return text.getvalue()


def parquet(path: Path) -> Path:
    frame(ODD).to_parquet(path, row_group_size=70)
    return path


MADE = {
    "a.jsonl": lambda path: write(path, json_lines(*frame(ODD).to_dict("records"))),
    "a.csv": lambda path: write(path, table(ODD)),
    "index.csv": lambda path: write(path, table(ODD, index=True)),
    "semicolons.csv": lambda path: write(path, "sep=;\n" + table(ODD, sep=";")),
    "headless.csv": lambda path: write(path, table(ODD, header=False)),
    "a.tsv": lambda path: write(path, "text\tlabel\n" + table(TEXTS, sep="\t", header=False)),
    "a.parquet": parquet,
    "saved": saved,
    "shards": shards,
}


@pytest.mark.parametrize("name", MADE)
def test_parts_are_the_whole(tmp_path, monkeypatch, name) -> None:
    path = MADE[name](tmp_path / name)
    typed = "text=0 label=1" if "headless" in name else "text=text"
    whole = task_of(path, f"kind=sentence {typed}").read("train")
    make_small(monkeypatch)
    split = read_split(task_of(path, f"kind=sentence {typed}"), "train")
    assert isinstance(split, SplitParts)
    parts = list(split.read())
    assert len(parts) > 3
    assert [part.part.number for part in parts] == list(range(len(parts)))
    assert [part.part.last for part in parts].index(True) == len(parts) - 1
    examples = [example for part in parts for example in part.examples]
    assert [example.text for example in examples] == [example.text for example in whole.examples]
    ((column, labels),) = whole.labels.items()
    assert [row for part in parts for row in part.labels[column]] == [*labels]
    assert len({example.id for example in examples}) == len(examples)
    third = list(split.read(lambda number: number == 2))
    assert third == [parts[2]]


def test_running_text_is_cut_between_documents(tmp_path, monkeypatch) -> None:
    documents = ["\n".join(TEXTS[n : n + 3]).replace("\u2028", "") for n in range(0, 300, 3)]
    path = write(tmp_path / "a.txt", "\n \n".join(documents))
    make_small(monkeypatch)
    split = read_split(task_of(path, "kind=language-modelling"), "train")
    assert isinstance(split, SplitParts) and split.parts.count > 3
    texts = [example.text for part in split.read() for example in part.examples]
    assert texts == [document.strip("\n") for document in documents]


@pytest.mark.parametrize("count", [5, 100, 1000])
def test_the_first_examples_are_read_alone(tmp_path, monkeypatch, count) -> None:
    path = MADE["a.jsonl"](tmp_path / "a.jsonl")
    whole = task_of(path, "kind=sentence").read("train")
    with path.open("a") as file:
        file.write("no JSON\n")
    make_small(monkeypatch)
    some = read_split(task_of(path, "kind=sentence"), "train", limit=count)
    if count == 5:  # fewer than one part has: what an earlier version made of them is found
        assert isinstance(some, Split)
        assert some.text_fingerprint() == whole.first(5).text_fingerprint()
    elif count == 100:
        assert isinstance(some, SplitParts)
        parts = list(some.read())
        assert sum(len(part.examples) for part in parts) == 100
        assert {(part.limit, part.part.limit) for part in parts} == {(None, 100)}
        assert parts[-1].part.last
    else:
        assert isinstance(some, SplitParts)
        with pytest.raises(DataError, match=r"a.jsonl \(from [\d,]+ on\), line \d+: not JSON"):
            list(some.read())


LATE = {
    "unlabelled": ({"label": None}, "none has a label in column 'label' there"),
    "labelled": ({"label": "a"}, "some have a label in column 'label' there"),
    "blank": ({"text": ""}, "no example is left there"),
}


@pytest.mark.parametrize("name", LATE)
def test_a_part_that_is_unlike_the_first_is_refused(tmp_path, monkeypatch, name) -> None:
    late, said = LATE[name]
    label = None if name == "labelled" else "b"
    rows = [{"text": f"text {n}", "label": label, "id": f"{n:040}"} for n in range(300)]
    rows[150:] = [row | late for row in rows[150:]]
    rows = [row for n, row in enumerate(rows) if n < 150 or n >= 170]
    path = write(tmp_path / "a.jsonl", json_lines(*rows))
    make_small(monkeypatch)
    skip = {"skip_unlabelled": True, "skip_blank": True}
    typed = None if name == "labelled" else "label"
    task = get_task(str(path), kind="sentence", text="text", label=typed, **skip)
    with pytest.raises(DataError, match=rf"a.jsonl \(from [\d,]+ on\): {said}"):
        list(read_split(task, "train").read())


@pytest.mark.parametrize("change", ["label", "card", "format"])
def test_another_way_of_reading_is_another_source(tmp_path, monkeypatch, change) -> None:
    rows = [{"text": text, "label": n % 2, "other": n % 3} for n, text in enumerate(TEXTS)]
    path = write(tmp_path / "a.jsonl", json_lines(*rows))
    if change == "format":
        path = write(tmp_path / "a.csv", table([f"{text},x" for text in TEXTS], sep="\t"))
    make_small(monkeypatch)

    def source(label: str = "label") -> str:
        task = get_task(str(path), kind="sentence", text="text", label=label, separator=sign)
        return read_split(task, "train").text_fingerprint()

    sign = "tab" if change == "format" else None
    before = source()
    assert source() == before
    if change == "label":
        assert source("other") != before
    elif change == "format":
        path = path.rename(path.with_suffix(".tsv"))
        assert source() != before
    else:
        names = "{class_label: {names: {'0': bad, '1': good}}}"
        card = f"---\ndataset_info:\n  features:\n  - name: label\n    dtype: {names}\n---\n"
        write(tmp_path / "README.md", card)
        assert source() != before


def test_large_files_that_cannot_be_cut_are_refused_as_small_ones_are(
    tmp_path, monkeypatch
) -> None:
    make_small(monkeypatch)
    path = write(tmp_path / "a.parquet", b"PAR1" + b"x" * 9000)
    with pytest.raises(DataError, match="not a readable Parquet file"):
        task_of(path, "kind=sentence")
    path = write(tmp_path / "a.csv", "\n" * 900 + table(TEXTS))
    with pytest.raises(DataError, match="its first 501 bytes hold no example"):
        task_of(path, "kind=sentence")


def test_groups_have_the_ids_of_the_parts(tmp_path, monkeypatch) -> None:
    rows = [{"text": text, "label": "a", "doc": f"d{n // 7}"} for n, text in enumerate(TEXTS)]
    path = write(tmp_path / "a.jsonl", json_lines(*rows))
    make_small(monkeypatch)
    split = read_split(get_task(str(path), kind="sentence", text="text", label="label"), "train")
    ids = [example.id for part in split.read() for example in part.examples]
    assert split.groups("doc") == dict(zip(ids, [row["doc"] for row in rows], strict=True))


def test_what_is_said_of_the_first_part_is_said_once(tmp_path, monkeypatch, caplog) -> None:
    rows = [{"text": "" if n % 7 == 0 else text, "label": "a"} for n, text in enumerate(TEXTS)]
    path = write(tmp_path / "a.jsonl", json_lines(*rows))
    make_small(monkeypatch)
    split = read_split(get_task(str(path), kind="sentence", skip_blank=True), "train")
    assert sum(len(part.examples) for part in split.read()) == 300 - 43
    assert caplog.text.count("have no text and are left out") == 1


def test_a_large_data_set_of_the_hub_is_streamed(serve, tmp_path, monkeypatch) -> None:
    rows = [{"text": text, "stars": n % 5} for n, text in enumerate(TEXTS)]
    folder = write(tmp_path / "repo" / "train.jsonl", json_lines(*rows)).parent
    write(folder / "test.jsonl", json_lines(*rows[:50]))
    make_small(monkeypatch, 4000)
    with serve({"datasets/org/stars": folder}):
        task = get_task("org/stars", kind="sentence")
        train, test = (read_split(task, split) for split in ("train", "test"))
        assert isinstance(train, SplitParts) and isinstance(test, Split)
        parts = list(train.read())
        assert isinstance(read_split(task, "train", limit=5), Split)
    assert len(parts) > 3 and parts[-1].part.last
    assert [example.text for part in parts for example in part.examples] == TEXTS
    stars = [label for part in parts for label in part.labels["stars"]]
    assert stars == [(str(row["stars"]),) for row in rows]


def test_what_is_appended_leaves_earlier_parts_as_they_are(tmp_path, monkeypatch) -> None:
    path = MADE["a.jsonl"](tmp_path / "a.jsonl")
    make_small(monkeypatch)
    before = list(read_split(task_of(path, "kind=sentence"), "train").read())
    with path.open("a") as file:
        file.write(json_lines(*frame(ODD).to_dict("records")))
    after = list(read_split(task_of(path, "kind=sentence"), "train").read())
    assert len(after) > len(before) + 3
    kept = [part.text_fingerprint() for part in before[:-1]]
    assert [part.text_fingerprint() for part in after[: len(kept)]] == kept
