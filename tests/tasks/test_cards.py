"""Names of classes that the card of a data set gives to numbers."""

from pathlib import Path

import pytest

from probekit.errors import DataError
from tests.tasks.own_files import get_task, json_lines, train, write

CARD = """---
dataset_info:
  features:
  - name: tokens
    sequence: string
  - name: ner_tags
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


def test_numbers_have_the_names_of_the_data_sets_card(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = json_lines(
        {"tokens": ["Jo", "left"], "ner_tags": [1, 0]}, {"tokens": ["Bo"], "ner_tags": [3]}
    )
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "README.md", CARD)
    task = get_task(str(tmp_path), kind="tagging")
    assert task.read("train").labels == {"ner_tags": (("B-PER", "O"), ("B-LOC",))}
    assert task.metrics == {"ner_tags": "span-f1"}
    write(tmp_path / "repo" / "data" / "train.jsonl", rows)
    write(tmp_path / "repo" / "README.md", CARD)
    assert train(tmp_path / "repo" / "data").labels == task.read("train").labels
    wrong = {"'3'": "'10'", "B-LOC": "NO", "'0'": ": [", "'1'": "x", "B-PER": "~"}
    for card in ("no card", *(CARD.replace(*change) for change in wrong.items())):
        write(tmp_path / "README.md", card)
        assert train(tmp_path).labels == {"ner_tags": (("1", "0"), ("3",))}
    assert "what it says of classes cannot be read" in caplog.text
    assert "'ner_tags' numbers its classes 0, 1, 2, 10" in caplog.text
    assert "the class False of 'ner_tags' is no text: put it in quotes" in caplog.text


def test_configurations_of_a_card_agree_or_one_is_the_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = json_lines({"tokens": ["Jo"], "ner_tags": [1]})
    write(tmp_path / "train.jsonl", rows)
    card = (
        "---\ndataset_info:\n- config_name: other\n  features:\n  - name: ner_tags\n    sequence:\n"
        "      class_label:\n        names: [O, X]\n- config_name: NAME\n  features:\n"
        "  - name: ner_tags\n    sequence:\n      class_label:\n        names: [O, B-PER]\n---\n"
    )
    for name, label in (("default", "B-PER"), ("another", "1")):
        write(tmp_path / "README.md", card.replace("NAME", name))
        assert train(tmp_path).labels == {"ner_tags": ((label,),)}
    assert "its configurations differ in 'ner_tags'" in caplog.text


def test_numbers_of_tables_have_names_too(tmp_path: Path) -> None:
    card = CARD.replace("ner_tags", "label").replace(
        "    sequence:\n      class", "    dtype:\n      class"
    )
    write(tmp_path / "README.md", card)
    write(tmp_path / "train.csv", "text,label\na,1\nb,0\nc,O\n")
    write(tmp_path / "dev.csv", "text,label\na,1.0\nb,-1\n")
    task = get_task(str(tmp_path), kind="sentence", skip_unlabelled=True)
    assert task.read("train").labels == {"label": (("B-PER",), ("O",), ("O",))}
    assert task.read("dev").labels == {"label": (("B-PER",),)}


def test_names_that_are_numbers_of_others_are_refused_in_text(tmp_path: Path) -> None:
    names = "".join(f"          '{n}': '{n + 1}'\n" for n in range(5))
    listed = CARD.partition("        names:\n")[0].replace("ner_tags", "label")
    write(
        tmp_path / "README.md",
        f"{listed}        names:\n{names}---\n".replace("sequence:\n", "dtype:\n"),
    )
    rows = [json_lines(*({"text": f"text {n}", "label": n} for n in range(5)))]
    write(tmp_path / "train.jsonl", rows[0])
    read = get_task(str(tmp_path), kind="sentence").read("train")
    assert read.labels == {"label": tuple((label,) for label in "12345")}
    (tmp_path / "train.jsonl").unlink()
    for cells in ("01234", "12345", "14"):
        lines = "".join(f"text {cell},{cell}\n" for cell in cells)
        write(tmp_path / "train.csv", f"text,label\n{lines}")
        with pytest.raises(DataError, match="is the name of a class and the number of another"):
            get_task(str(tmp_path), kind="sentence")


@pytest.mark.parametrize("number", ["4", "-2"])
def test_a_number_without_a_name_is_told_with_the_card(tmp_path: Path, number: str) -> None:
    write(tmp_path / "README.md", CARD)
    write(tmp_path / "train.jsonl", f'{{"tokens": ["Jo"], "ner_tags": [{number}]}}')
    with pytest.raises(
        DataError, match=rf"line 1: {number} is no class of the card, .*'ner_tags'.*README"
    ):
        train(tmp_path)


@pytest.mark.parametrize("names", ["[x, x]", "[x, ' x']", "[x, n/a]", "[x, 'null']"])
def test_names_that_are_no_two_classes_are_told(
    tmp_path: Path, names: str, caplog: pytest.LogCaptureFixture
) -> None:
    feature = f"{{name: label, dtype: {{class_label: {{names: {names}}}}}}}"
    write(tmp_path / "README.md", f"---\ndataset_info: {{features: [{feature}]}}\n---\n")
    write(tmp_path / "train.csv", "text,label\na,0\nb,1\n")
    task = get_task(str(tmp_path), kind="sentence")
    assert task.read("train").labels == {"label": (("0",), ("1",))}
    assert "what it says of classes cannot be read" in caplog.text


def test_what_is_no_class_in_a_named_column_is_told_with_its_line(tmp_path: Path) -> None:
    write(tmp_path / "README.md", CARD.replace("ner_tags", "tokens"))
    rows = [{"tokens": ["Jo"], "tags": ["O"]}, {"tokens": {"a": 1}, "tags": ["O"]}]
    write(tmp_path / "train.jsonl", json_lines(*rows))
    with pytest.raises(DataError, match=r"line 2: expected a list of strings in column 'tokens'"):
        get_task(str(tmp_path), text="tokens", label="tags")


def test_a_table_of_words_has_names_in_its_cells(tmp_path: Path) -> None:
    write(tmp_path / "README.md", CARD)
    write(tmp_path / "train.csv", "token,ner_tags\nJo,1\nleft,-1\n")
    assert train(tmp_path).labels == {"ner_tags": (("1", ""),)}


def test_numbers_beside_a_card_are_numbers(tmp_path: Path) -> None:
    feature = "{name: label, dtype: {class_label: {names: [bad, good]}}}"
    write(tmp_path / "README.md", f"---\ndataset_info: {{features: [{feature}]}}\n---\n")
    write(tmp_path / "train.csv", "text,label\na,0\nb,1\n")
    task = get_task(str(tmp_path), kind="regression")
    assert task.read("train").labels == {"label": (("0",), ("1",))}
