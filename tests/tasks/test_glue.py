"""GLUE, from the published tables and from the local Hub: the same texts and labels."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probekit.errors import DataError, HubError
from probekit.tasks import Split, get_task
from probekit.tasks.corpora.glue import GLUE, glue
from probekit.tasks.schemes import score_name
from tests.tasks.hub_repos import write_card, write_config
from tests.tasks.own_files import ids, shown, write

HEADERS = {
    "sst2": "sentence\tlabel",
    "mrpc": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "stsb": "index\tgenre\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "mnli": "index\tpromptID\tpairID\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1"
    "\tgold_label",
    "qnli": "index\tquestion\tsentence\tlabel",
    "rte": "index\tsentence1\tsentence2\tlabel",
}
ROWS = {
    "sst2": ("a fine film \t1", "a fine film  = 1"),
    "mrpc": ('0\t1\t2\t"One\tTwo "', '"One + Two " = 0'),
    "qqp": ("7\t1\t2\tWho?\tWhy?\t1", "Who? + Why? = 1"),
    "stsb": ('0\tnews\tx\ty\tA "plane\tA bird\t3.8', 'A "plane + A bird = 3.800'),
    "mnli": (
        "0\t1\t2\tfiction\t( p )\tIt rains.\tWet.\tneutral\tentailment",
        "It rains. + Wet. = entailment",
    ),
    "qnli": ("0\tWho?\tHe.\tnot_entailment", "Who? + He. = not_entailment"),
    "rte": ("0\tOne.\tTwo.\tentailment", "One. + Two. = entailment"),
}


def read(name: str, folder: Path, content: str, file: str = "train.tsv") -> Split:
    write(folder / file, content)
    split = {"dev_matched.tsv": "dev", "test_matched.tsv": "test"}.get(file, file.split(".")[0])
    return get_task(f"glue/{name}").read(split, folder)


@pytest.mark.parametrize("name", HEADERS)
def test_columns_are_found_by_name(name: str, tmp_path: Path) -> None:
    line, row = ROWS[name]
    plain = f"{HEADERS[name]}\n{line}\n{line}\n"
    for number, written in enumerate(
        (plain, "\ufeff" + plain, plain[:-1], plain.replace("\n", "\r\n"), plain + "\n")
    ):
        split = read(name, tmp_path / str(number), written)
        assert shown(split) == f"label: {row} | {row}" and ids(split) == ["train-0", "train-1"]
    # The same columns in another order.
    turned = "\n".join("\t".join(cells.split("\t")[::-1]) for cells in (HEADERS[name], line))
    assert shown(read(name, tmp_path / "turned", turned)) == f"label: {row}"


@pytest.mark.parametrize("name", GLUE)
@pytest.mark.parametrize("parent", ["", "glue"])
def test_the_folder_may_be_the_one_of_all_tasks(name: str, parent: str, tmp_path: Path) -> None:
    published = {"cola": "CoLA", "sst2": "SST-2", "stsb": "STS-B"}.get(name, name.upper())
    content = f"{HEADERS[name]}\n{ROWS[name][0]}\n" if name in HEADERS else "a\t1\t\tHe ran.\n"
    write(tmp_path / parent / published / "train.tsv", content)
    split = get_task(f"glue/{name}").read("train", tmp_path / parent)
    assert len(split.examples) == 1
    assert split.origin == f"train.tsv in {tmp_path / parent / published}"


def test_cola_has_a_header_in_test_alone(tmp_path: Path) -> None:
    train = read("cola", tmp_path, 'gj04\t1\t\tHe said "no.\ngj04\t0\t*\tRan he.')
    assert shown(train) == 'label: He said "no. = 1 | Ran he. = 0'
    test = read("cola", tmp_path, "index\tsentence\n0\tBill whistled.\n", "test.tsv")
    assert shown(test) == ": Bill whistled."


def test_mnli_has_five_splits(tmp_path: Path) -> None:
    task = get_task("glue/mnli")
    assert task.splits == ("train", "dev", "dev-mm", "test", "test-mm")
    files = ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    for split, file in zip(task.splits, files, strict=True):
        line = ROWS["mnli"][0].replace("It rains.", f"It rains in {file}.")
        write(tmp_path / f"{file}.tsv", f"{HEADERS['mnli']}\n{line}\n")
        example = task.read(split, tmp_path).examples[0]
        assert (example.id, example.text) == (f"{split}-0", f"It rains in {file}.")


@pytest.mark.parametrize("name", HEADERS)
def test_an_unlabelled_test_file_has_no_column(name: str, tmp_path: Path) -> None:
    label = GLUE[name].label
    place = HEADERS[name].split("\t").index(label)
    lines = [line.split("\t") for line in (HEADERS[name], ROWS[name][0])]
    blind = "".join("\t".join(c[:place] + c[place + 1 :]) + "\n" for c in lines)
    file = "test_matched.tsv" if name == "mnli" else "test.tsv"
    assert read(name, tmp_path, blind, file).labels == {}
    with pytest.raises(DataError, match=rf"train.tsv, line 1: .*{label} missing.*another task"):
        read(name, tmp_path, blind)


def test_no_quoting_and_no_other_line_ends(tmp_path: Path) -> None:
    lines = ['0\t1\t2\t"Open\tshut', "1\t3\t4\tNext\x0b\u2028\x85line\tsame\xa0", '0\t1\t2\tq"\t"']
    split = read("mrpc", tmp_path, "\n".join([HEADERS["mrpc"], *lines]))
    unusual = "Next\x0b\u2028\x85line + same\xa0 = 1"
    assert shown(split) == f'label: "Open + shut = 0 | {unusual} | q" + " = 0'


def test_qqp_leaves_broken_rows_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = '8\t3\t4\tWhat is\t"\n"\tWas he real?\t0'
    line = ROWS["qqp"][0]
    with caplog.at_level(logging.WARNING):
        split = read("qqp", tmp_path, f"{HEADERS['qqp']}\n{broken}\n{line}\n")
    assert shown(split) == f"label: {ROWS['qqp'][1]}"
    assert "2 broken rows are left out" in caplog.text
    with pytest.raises(DataError, match=r"line 3: expected 6 .*found 7"):
        read("qqp", tmp_path, f"{HEADERS['qqp']}\n{line}\n{line}\t1\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rte", HEADERS["rte"] + "\n0\tOne.\tTwo.\n", r"line 2: expected 4 .*found 3"),
        ("rte", HEADERS["rte"] + "\n0\ta\tb\tyes\n", r"line 2: unknown label 'yes'; expected ent"),
        ("rte", HEADERS["rte"] + "\n0\ta\tb\t\n", r"line 2: unknown label ''"),
        ("rte", HEADERS["rte"] + "\n0\t\t\tentailment\n", r"line 2: an example without text"),
        ("rte", HEADERS["rte"] + "\n", r"split 'train' of glue/rte is empty"),
        ("rte", "", r"is empty"),
        ("rte", HEADERS["sst2"] + "\na\t1\n", r"line 1: .*sentence1, sentence2 missing"),
        ("sst2", HEADERS["sst2"] + "\n\t1\n", r"line 2: an example without text"),
        ("sst2", HEADERS["sst2"] + "\na\t1\n\nb\n", r"line 4: expected 2 .*found 1"),
        ("cola", HEADERS["sst2"] + "\na\t1\n", r"line 1: expected 4 .*found 2"),
        ("cola", "gj04\t1\tHe ran.\n", r"line 1: expected 4 .*found 3"),
        ("cola", "gj04\t2\t\tHe ran.\n", r"line 1: unknown label '2'"),
        ("cola", HEADERS["rte"] + "\n", r"line 1: .*'sentence1'; .* the folder of another task\?"),
        ("stsb", HEADERS["stsb"] + "\n0\tn\tx\ty\ta\tb\tnan\n", r"line 2: 'nan' is not a score"),
        ("stsb", HEADERS["stsb"] + "\n0\tn\tx\ty\ta\tb\t\n", r"line 2: '' is not a score"),
        ("stsb", HEADERS["stsb"] + "\n0\tn\tx\ty\ta\tb\t7\n", r"not a score from 0 to 5"),
        ("stsb", HEADERS["stsb"] + "\n0\tn\tx\ty\ta\tb\t3,8\n", r"'3,8' is not a score"),
    ],
)
def test_malformed(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(name, tmp_path, content)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "train.tsv") in str(caught.value)


@given(st.floats(0, 5, width=32))
@settings(max_examples=30)
def test_a_score_has_one_name(value: float) -> None:
    name = score_name(value)
    assert score_name(float(name)) == name
    # The name means the same float32, so it is that close.
    assert float(name) == pytest.approx(value, rel=2**-24, abs=5e-10)
    assert len(name.partition(".")[2]) >= 3


@pytest.mark.parametrize(
    ("written", "name"),
    [("5", "5.000"), ("3.8", "3.800"), ("0.00", "0.000"), ("3.799999952316284", "3.800")],
)
def test_a_score_as_published(written: str, name: str) -> None:
    assert score_name(float(written)) == name


# As nyu-mll/glue names them, by number.
NAMES = {
    "cola": ("unacceptable", "acceptable"), "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"), "qqp": ("not_duplicate", "duplicate"),
    "mnli": ("entailment", "neutral", "contradiction"), "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}  # fmt: skip
SCORES = (3.8, 0.0, 4.57142857142857)
FIRST, SECOND = ["One ", '"Two', "Tres\xa0"], ["Un", "Deux", "Trois"]


def hub_split(name: str, labels: list[float]) -> dict[str, list[object]]:
    """Rows as the Hub has them."""
    texts = dict(zip(GLUE[name].hub_texts or GLUE[name].texts, (FIRST, SECOND), strict=False))
    return {**texts, "label": labels, "idx": [0, 1, 2]}  # type: ignore[dict-item]


def published(name: str, labels: list[str]) -> str:
    """The same rows as the published table has them."""
    about = GLUE[name]
    header = HEADERS[name].split("\t") if name in HEADERS else list(about.headless)
    lines = ["\t".join(header)] if name in HEADERS else []
    for first, second, label in zip(FIRST, SECOND, labels, strict=True):
        known = dict(zip(about.texts, (first, second), strict=False)) | {about.label: label}
        lines.append("\t".join(known.get(column, "x") for column in header))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", GLUE)
def test_labels_equal_those_of_the_published_files(serve, name: str, tmp_path) -> None:
    classes = NAMES.get(name, ())
    numbers = [len(classes) - 1, 0, 1] if classes else list(SCORES)
    written = [classes[int(n)] for n in numbers] if classes else [str(n) for n in numbers]
    if name in ("cola", "sst2", "mrpc", "qqp"):
        written = [str(n) for n in numbers]
    about = glue(name)
    splits = {GLUE[name].hub_splits[s]: hub_split(name, numbers) for s in about.splits}
    blind = GLUE[name].hub_splits["test"]
    splits[blind] = hub_split(name, [-1, -1, -1])
    repo = write_config(tmp_path / "repo", name, splits, classes)
    write_card(repo, {name: list(splits)})
    for file in (names[0] for names in GLUE[name].files.values()):
        write(tmp_path / "data" / file, published(name, written))
    with serve({"datasets/nyu-mll/glue": repo}):
        for split in about.splits:
            online = about.read(split, None)
            if split == "test":
                assert online.labels == {}
                continue
            offline = about.read(split, tmp_path / "data")
            assert online.examples == offline.examples
            assert online.labels == offline.labels
            assert online.labels_fingerprint("label") == offline.labels_fingerprint("label")
            assert online.text_fingerprint() == offline.text_fingerprint()
            assert online.origin.startswith("hub:nyu-mll/glue@")
            assert online.origin.endswith(f" ({name})")


def test_some_rows_without_a_label(serve, tmp_path) -> None:
    rows = {"train": hub_split("rte", [0, -1, 1])}
    repo = write_config(tmp_path / "repo", "rte", rows, NAMES["rte"])
    write_card(repo, {"rte": ["train"]})
    with (
        serve({"datasets/nyu-mll/glue": repo}),
        pytest.raises(HubError, match="None in column 'label' is not a label"),
    ):
        get_task("glue/rte").read("train", None)


def test_a_repository_that_lost_the_names(serve, tmp_path) -> None:
    columns = hub_split("cola", [1, 0, 1])
    columns["label"] = [1, 0, 1]
    repo = write_config(tmp_path / "repo", "cola", {"train": {**columns}}, ())
    import pyarrow as pa
    import pyarrow.parquet as pq

    (path,) = repo.rglob("*.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "label", pa.array([1, 0, 1])), path)
    write_card(repo, {"cola": ["train"]})
    with serve({"datasets/nyu-mll/glue": repo}):
        assert get_task("glue/cola").read("train", None).labels["label"] == (("1",), ("0",), ("1",))
