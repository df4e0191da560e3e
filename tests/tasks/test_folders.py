"""Folders of the user's own files: which file is which split, shards, cards, names in a cache."""

import gzip
import re
from pathlib import Path

import datasets
import pytest

from probekit.errors import DataError, MissingFileError, OptionError, UnknownNameError
from tests.tasks.own_files import (
    CONLLU,
    Content,
    get_task,
    ids,
    json_lines,
    read,
    shown,
    task_of,
    words,
    write,
    write_parquet,
)

SENTENCE = "kind=sentence"
TEXT = "kind=language-modelling"
X = "a X\n"
BLIND = CONLLU.replace("VERB", "_")
CARD = """---
dataset_info:
  features:
  - name: tokens
    sequence: string
  - name: tags
    sequence:
      class_label:
        names:
          '0': O
          '3': B-LOC
          '2': I-PER
          '1': B-PER
---
Made up.
"""
TAGGED = [{"tokens": ["Jo", "left"], "tags": [1, 0]}, {"tokens": ["Bo"], "tags": [3]}]
JO = "tags: Jo/B-PER left/O | Bo/B-LOC"
DIGITS = "tags: Jo/1 left/0 | Bo/3"


def card(names: str, kind: str = "dtype", column: str = "label") -> str:
    feature = f"{{name: {column}, {kind}: {{class_label: {{names: {names}}}}}}}"
    return f"---\ndataset_info: {{features: [{feature}]}}\n---\n"


def two_configurations(name: str) -> str:
    """A card of two configurations, the second of that name, that name classes in two ways."""
    listed = ""
    for called, names in (("other", "[O, X, Y, Z]"), (name, "[O, B-PER, I-PER, B-LOC]")):
        feature = f"{{name: tags, sequence: {{class_label: {{names: {names}}}}}}}"
        listed += f"- {{config_name: {called}, features: [{feature}]}}\n"
    return f"---\ndataset_info:\n{listed}---\n"


def write_all(folder: Path, files: dict[str, Content]) -> Path:
    for name, content in files.items():
        write(folder / name, content)
    return folder


READ: list[tuple[dict[str, Content], str, str]] = [
    # splits by the names of files
    (
        {"train.conll": X, "validation.conll": "b O\n", "testb.conll": "c O\n", "notes.conll": X},
        "",
        "train 1: a/X; dev 1: b/O; test 1: c/O",
    ),
    (
        {"a-ud-train.conllu": CONLLU, "a-ud-test.conllu": BLIND},
        "",
        "train upos: go/VERB; test : go",
    ),
    ({"en_x-ud-dev.conllu": CONLLU, "en_x-ud-dev.txt": "go\n"}, "", "dev upos: go/VERB"),
    ({"en_x-ud-dev.conllu": CONLLU, "en_x-ud-dev.txt": "go\n"}, TEXT, "dev : go"),
    ({"train.conll": X, "test.conll": "a\n"}, "", "train 1: a/X; test : a"),
    ({"training.conll": X, "development.conll": X}, "", "train 1: a/X; dev 1: a/X"),
    (
        {"my_train.conll": X, "data-test.conll": X, "test_out.conll": X, "a dev.txt": X},
        "",
        "train 1: a/X; test 1: a/X",
    ),
    ({"train.conll": X, "a_dev.conll": X, "b_dev.conll": X}, "", "train 1: a/X"),
    ({"dev.conll": X, "my_dev.conll": "b X\n"}, "", "dev 1: a/X"),
    ({"wiki.train.txt": X, "wiki.valid.txt": "b X\n"}, "", "train 1: a/X; dev 1: b/X"),
    ({"train.csv": "token,t\na,X\n", "test.csv": "token\na\n"}, "", "train t: a/X; test : a"),
    ({"train.jsonl": TAGGED, "test.jsonl": [{"tokens": ["a"]}]}, "", f"train {DIGITS}; test : a"),
    (
        {"train.csv": "text,y,z\na,1,p\n", "test.csv": "text,z\na,p\n"},
        f"{SENTENCE} label=y",
        "train y: a = 1; test : a",
    ),
    ({"train.conll": "a b-x\n", "dev.conll": "a o\n"}, "", "train 1: a/B-x; dev 1: a/O"),
    ({"dev.conll.GZ": gzip.compress(b"EU B-ORG\n")}, "", "dev 1: EU/B-ORG"),
    # shards, in the order of their numbers
    *(
        (
            {below + name: f"{n} O\n" for n, name in enumerate(names)},
            "",
            f"train 1: {' | '.join(f'{n}/O' for n in range(len(names)))}",
        )
        for below in ("", "data/")
        for names in (
            ["train-00000-of-00002.conll", "train-00001-of-00002.conll"],
            [f"train-0000{n}-of-00002-{'0123456789abcdef'[:: 1 - 2 * n]}.conll" for n in (0, 1)],
            [f"train-{n}.conll" for n in range(11)],
            ["train_1.conll", "train_2.conll"],
            ["train/0000.conll", "train/0001.conll"],
            ["train/part-0.conll", "train/part-1.conll"],
            ["train/all.conll"],
        )
    ),
    *(
        (
            {f"train-{n:05d}-of-00002{suffix}": form(f"text {n}") for n in (0, 1)},
            SENTENCE,
            "train label: text 0 = x | text 1 = x",
        )
        for suffix, form in {
            ".parquet": lambda text: {"text": [text], "label": ["x"]},
            ".jsonl": lambda text: [{"text": text, "label": "x"}],
            ".jsonl.gz": lambda text: gzip.compress(
                json_lines({"text": text, "label": "x"}).encode()
            ),
            ".csv": lambda text: f"text,label\n{text},x\n",
        }.items()
    ),
]


@pytest.mark.parametrize(("files", "typed", "expected"), READ)
def test_what_is_read(files: dict[str, Content], typed: str, expected: str, tmp_path) -> None:
    task = task_of(write_all(tmp_path, files), typed)
    assert "; ".join(f"{split} {shown(task.read(split))}" for split in task.splits) == expected
    assert ids(task.read(task.splits[0]))[0] == f"{task.splits[0]}-0"


FAULTS: list[tuple[dict[str, Content], str]] = [
    ({"dev.jsonl": "", "validation.conll": X}, r"dev.jsonl and validation.conll are both 'dev'"),
    ({"train.conll": "a X Y Z\n", "dev.conll": X}, r"--label 3: .*dev.conll has 2 columns"),
    ({"train-0.conll": "a B-X\n", "train-1.conll": "b B_X\n"}, r"train-1.conll, line 1: 'B_X'"),
    ({"train.xml": X}, r"train.xml has another format, or needs another --kind\.$"),
    ({"en/train-0.conll": X}, r"Did you mean .*/en\?$"),
    *(
        (dict.fromkeys(names, X), message)
        for names, message in (
            ([], "no file is named after a split; expected train, .*dev"),
            (["train-00000-of-00002.conll"], "one of 2 shards, but number 1 is missing"),
            (["train-0.conll", "train-2.conll"], "one of 2 shards, but number 1 is missing"),
            (["train-0.conll", "train-00.conll"], "but number 1 is missing"),
            (["test-2016.conll", "test-2017.conll"], "but number 1 is missing"),
            (["train.conll", "train-0.conll"], "train-0.conll and train.conll are both 'train'"),
            (["train-0.conll", "train_1.tsv"], "are both 'train'"),
            (["train/a.conll", "train/b.conll"], "train: a.conll and b.conll are both 'train'"),
            (["valid-0.conll", "validation-1.conll"], "are both 'dev'"),
            (["notes-0.conll"], r"no file is named after a split; .*train-00000-of-00002.parquet"),
        )
    ),
]


@pytest.mark.parametrize(("files", "message"), FAULTS)
def test_what_is_refused(files: dict[str, Content], message: str, tmp_path) -> None:
    with pytest.raises((DataError, OptionError), match=message):
        task = task_of(write_all(tmp_path, files))
        for split in task.splits:
            task.read(split)


NUMBERS = "text,label\na,1\nb,0\n"
FIVE = card("['1', '2', '3', '4', '5']")


@pytest.mark.parametrize(
    ("file", "content", "readme", "typed", "expected"),
    [
        ("train.jsonl", TAGGED, CARD, "", JO),
        ("data/train.jsonl", TAGGED, CARD, "", JO),
        ("train.jsonl", TAGGED, two_configurations("default"), "", JO),
        ("train.csv", "token,tags\nJo,1\nleft,-1\n", CARD, "", "tags: Jo/1 left/"),
        ("train.csv", NUMBERS, FIVE, "kind=regression", "label: a = 1 | b = 0"),
        ("train.csv", f"{NUMBERS}c,O\n", card("[O, X]"), SENTENCE, "label: a = X | b = O | c = O"),
        (
            "train.csv", "text,y\na,1\nc,2.0\n", card("[a, b, c]", column="y"), SENTENCE,
            "y: a = b | c = c",
        ),
        ("train.jsonl", [{"text": "t", "label": 2}], FIVE, SENTENCE, "label: t = 3"),
    ],
)  # fmt: skip
def test_names_in_the_card(file, content: Content, readme: str, typed, expected, tmp_path) -> None:
    write_all(tmp_path, {file: content, "README.md": readme})
    assert shown(read(tmp_path, typed)) == expected


@pytest.mark.parametrize(
    ("file", "content", "readme", "typed", "message"),
    [
        *(
            (
                "a.jsonl",
                [{"tokens": ["Jo"], "tags": [n]}],
                CARD,
                "",
                f"line 1: {n} is not a class of",
            )
            for n in (4, -2)
        ),
        *(
            ("a.csv", f"text,label\na,{n}\nb,{m}\n", FIVE, SENTENCE, "of one class and the number")
            for n, m in ("01", "12", "14")
        ),
        (
            "a.jsonl",
            [TAGGED[0], {"tokens": {"a": 1}, "tags": ["O"]}],
            card("[O]", "sequence", "tokens"),
            "text=tokens label=tags",
            r"line 2: expected a list of strings in column 'tokens'",
        ),
    ],
)
def test_classes_that_the_card_does_not_name(
    file, content, readme: str, typed, message, tmp_path
) -> None:
    write_all(tmp_path, {file: content, "README.md": readme})
    with pytest.raises(DataError, match=message):
        read(tmp_path / file, typed)


@pytest.mark.parametrize(
    ("readme", "said"),
    [
        ("no card", ""),
        (CARD.replace("'3'", "'10'"), "'tags' are numbered 0, 1, 2, 10"),
        (CARD.replace("B-LOC", "NO"), "the class False of 'tags' is not text: put it in quotes"),
        (CARD.replace("B-PER", "~"), "the class None of 'tags' is not text"),
        (CARD.replace("'0'", ": ["), "the class names there cannot be read"),
        (CARD.replace("'1'", "x"), "the class names there cannot be read"),
        (two_configurations("another"), "its configurations differ in 'tags'"),
        *(
            (card(names, "sequence", "tags"), "the class names there cannot be read")
            for names in ("[x, x]", "[x, ' x']", "[x, n/a]", "[x, 'null']")
        ),
    ],
)
def test_a_card_that_names_no_classes_is_said(readme: str, said: str, tmp_path, caplog) -> None:
    write_all(tmp_path, {"train.jsonl": TAGGED, "README.md": readme})
    assert shown(read(tmp_path)) == DIGITS
    assert said in caplog.text and bool(said) == bool(caplog.messages)


@pytest.mark.parametrize(
    ("stems", "split"),
    [
        (("train", "mine", "my_dev", "train-00000-of-00002"), "train"),
        (("dev", "valid", "validation", "val", "testa", "validation-00000-of-00002"), "dev"),
        (("test", "testb", "Test"), "test"),
    ],
)
def test_a_single_file_is_the_split_that_its_name_says(tmp_path, stems, split: str) -> None:
    for stem in stems:
        task = task_of(write(tmp_path / f"{stem}.conll", X))
        assert task.splits == (split,) and len(task.notes) == 1
    with pytest.raises(UnknownNameError, match=rf"Choose from: {split}\."):
        task.read("other")


@pytest.mark.parametrize("name", ["a.conll", "a.txt"])
def test_packed_files_equal_plain_ones(tmp_path: Path, name: str) -> None:
    content = b"EU B-ORG\ncalls O\n"
    plain = read(write(tmp_path / name, content))
    packed = read(write(tmp_path / f"{name}.gz", gzip.compress(content)))
    assert packed.text_fingerprint() == plain.text_fingerprint()
    assert packed.labels == plain.labels


def test_slug_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "one" / "my data.conll", "a O\n")
    two = write(tmp_path / "two" / "my data.conll", "a B-X\n")
    other = write(tmp_path / "other" / "my data.conll", "b O\n")
    slugs = [task_of(path).slug for path in (one, two, other)]
    assert slugs[0] == slugs[1] != slugs[2]  # the text decides, not the place, nor the labels
    assert all(slug.startswith("my-data-") and len(slug) == 16 for slug in slugs)
    folder = write(tmp_path / "people" / "dev.conll", "a O\n").parent
    assert task_of(folder).slug == task_of(folder / "dev.conll").slug
    assert task_of(folder).slug.startswith("people-")
    monkeypatch.chdir(one.parent)
    relative = get_task("my data.conll")
    assert (relative.slug, relative.name) == (slugs[0], "my data.conll")


def test_data_beside_a_path_holds_the_same_splits(tmp_path: Path) -> None:
    task = task_of(write(tmp_path / "a.conll", "a O\n"))
    corrected = write(tmp_path / "new" / "train.conll", "a B-X\n").parent
    assert shown(task.read("train", corrected)) == "1: a/B-X"
    write(tmp_path / "other" / "dev.conll", "a O\n")
    with pytest.raises(
        MissingFileError, match=r"other: no file for split 'train', only for dev. Name"
    ):
        task.read("train", tmp_path / "other")
    for name in ("./absent", str(tmp_path / "absent.conll")):
        with pytest.raises(MissingFileError, match=r"absent.*: no such file or folder"):
            get_task(name)


def test_the_origin_of_shards_names_the_first(tmp_path: Path) -> None:
    write_all(tmp_path, {"train_1.conll": X, "train_2.conll": X})
    assert read(tmp_path).origin == f"train_1.conll in {tmp_path} and 1 more"


NAMES = datasets.ClassLabel(names=["O", "B-X"])


@pytest.mark.usefixtures("quick")
def test_saved_data_sets(tmp_path: Path) -> None:
    tokens = datasets.List(datasets.Value("string"))
    features = datasets.Features({"tokens": tokens, "ner": datasets.List(NAMES)})
    columns = {"tokens": [["EU", "calls"], ["No"]], "ner": [[1, 0], [0]]}
    tagged = datasets.Dataset.from_dict(columns, features=features)
    tagged.save_to_disk(tmp_path / "one", num_shards=2)
    assert shown(read(tmp_path / "one")) == "ner: EU/B-X calls/O | No/O"
    both = datasets.DatasetDict({"test": tagged, "validation": tagged.select([1])})
    both.save_to_disk(tmp_path / "two")
    task = task_of(tmp_path / "two")
    assert task.splits == ("dev", "test")
    assert words(task.read("dev")) == [("No",)]
    assert task_of(tmp_path / "two" / "validation").splits == ("dev",)
    features = datasets.Features({"text": datasets.Value("string"), "label": NAMES})
    texts = datasets.Dataset.from_dict({"text": ["a b"], "label": [1]}, features=features)
    texts.with_format("numpy").save_to_disk(tmp_path / "a")
    assert shown(read(tmp_path / "a", SENTENCE)) == "label: a b = B-X"
    (tmp_path / "a" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(DataError, match=r"/a: not a readable saved data set"):
        read(tmp_path / "a", SENTENCE)
    write(tmp_path / "a" / "state.json", "{")
    with pytest.raises(DataError, match=r"/a: not a readable saved data set \(state.json"):
        read(tmp_path / "a", SENTENCE)


CLASS_LABEL = {"_type": "ClassLabel", "names": ["O", "B-X"]}


@pytest.mark.parametrize(
    ("columns", "features", "expected"),
    [
        *(
            (
                {"tokens": [["a", "b"], ["c"]], "ner": [[1, 0], [0]], "id": [7, 9]},
                {"ner": feature},
                "ner: a/B-X b/O | c/O",
            )
            for feature in (
                {"_type": "List", "feature": CLASS_LABEL},
                {"_type": "Sequence", "feature": CLASS_LABEL},
                [CLASS_LABEL],
            )
        ),
        ({"tokens": [["a", "b"]], "ner": [[1, 0]]}, {"ner": {"_type": "Value"}}, "ner: a/1 b/0"),
        *(
            (
                {
                    "tokens": [["a", "b"], ["c"]],
                    "ner": [[1, none], [none]],
                    "pos": [[none] * 2, [none]],
                },
                {name: {"_type": "List", "feature": CLASS_LABEL} for name in ("ner", "pos")},
                "ner: a/B-X b/ | c/",
            )
            for none in (-1, -100)
        ),
        ({"text": ["a", "b"], "label": [1, 0]}, {"label": CLASS_LABEL}, "label: a = B-X | b = O"),
    ],
)
def test_numbers_of_classes_in_parquet_become_their_names(
    tmp_path, columns, features, expected
) -> None:
    path = write_parquet(tmp_path / "a.parquet", columns, features)
    split = read(path, SENTENCE if "text" in columns else "")
    assert shown(split) == expected
    assert (
        ids(split)[:2]
        == (["7", "9"] if "id" in columns else ["train-0", "train-1"])[: len(split.examples)]
    )


@pytest.mark.parametrize(
    "feature", [[], *({**CLASS_LABEL, "names": n} for n in ("ab", {"0": "a"}, [1, 2]))]
)
def test_names_of_classes_in_parquet_are_a_list_of_names(tmp_path, feature):
    columns = {"text": ["a", "b"], "label": [1, 0]}
    path = write_parquet(tmp_path / "a.parquet", columns, {"label": feature})
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read(path, SENTENCE)


@pytest.mark.parametrize(
    ("files", "note"),
    [
        (["train.conll", "dev.conll", "train.txt"], ""),
        (["train.conll", "my-dev.conll"], r": my-dev\.conll is dev$"),
        (["train.conll", "b.conll", "a.jsonl"], r": left out: a\.jsonl, b\.conll \(the files"),
        (["train.conll", "a_dev.csv", "b_dev.csv"], r": left out: a_dev\.csv, b_dev\.csv \("),
        (["train.conll", "dev.xml", "README.md"], r"left out: dev\.xml \("),
        (["data/train.conll", "x.csv", "data/y.csv"], r"left out: x\.csv, y\.csv \("),
        (["train/0.conll", "train/1.conll"], ""),
    ],
)
def test_which_files_are_not_read_is_said(files: list[str], note: str, tmp_path) -> None:
    columns, *others = task_of(write_all(tmp_path, dict.fromkeys(files, X))).notes
    assert columns.endswith("read as --kind tagging: words from '0', labels from '1'")
    assert len(others) == bool(note) and re.search(note, "".join(others))
