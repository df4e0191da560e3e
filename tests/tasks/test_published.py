"""Published formats: every trap of the files, on small files written here."""

import logging
from pathlib import Path

import pytest

from probekit.base.kinds import KINDS
from probekit.errors import DataError, MissingFileError, OptionError, UnknownNameError
from probekit.metrics import METRICS
from probekit.tasks import TASKS, Split, TextOptions, get_task

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nA NN I-NP I-PER\n"


def read(name: str, folder: Path, content: str | bytes, file: str, split: str = "train") -> Split:
    """Write one file and read it as a split of a task."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return get_task(name).read(split, folder)


def words(split: Split) -> list[tuple[str, ...]]:
    return [example.words for example in split.examples]


def test_conll_columns_and_ids(tmp_path: Path) -> None:
    split = read("conll", tmp_path, CONLL, "eng.train")
    assert words(split) == [("EU", "rejects"), ("A",)]
    assert [example.id for example in split.examples] == ["train-0", "train-1"]
    assert split.labels["ner"] == (("B-ORG", "O"), ("B-PER",))
    assert split.labels["chunk"] == (("B-NP", "B-VP"), ("B-NP",))
    assert split.labels["pos"] == (("NNP", "VBZ"), ("NN",))
    assert split.origin == f"eng.train in {tmp_path}"


def test_conll_iob1_at_touching_entities(tmp_path: Path) -> None:
    rows = ["a X I-NP I-PER", "b X B-NP B-PER", "c X I-NP I-PER", "d X I-VP I-LOC", "e X O O"]
    split = read("conll", tmp_path, "\n".join(rows), "eng.testa", "dev")
    assert split.labels["ner"] == (("B-PER", "B-PER", "I-PER", "B-LOC", "O"),)
    assert split.labels["chunk"] == (("B-NP", "B-NP", "I-NP", "B-VP", "O"),)


def test_conll_other_files_are_kept_as_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        split = read("conll", tmp_path, "a X B-NP I-PER\nb X I-NP I-PER\n", "train.txt")
    assert split.labels["ner"] == (("I-PER", "I-PER"),)
    assert "1 entities of column 'ner' open with I-" in caplog.text


def test_conll_two_columns_are_word_and_ner(tmp_path: Path) -> None:
    split = read("conll", tmp_path, "EU\tB-ORG\nsays\tO\n", "valid.txt", "dev")
    assert split.labels == {"ner": (("B-ORG", "O"),)}


@pytest.mark.parametrize(
    "content",
    [
        CONLL.removesuffix("\n"),
        CONLL.replace("\n", "\r\n"),
        "\ufeff" + CONLL,
        CONLL.replace("\n\nA", "\n\n\n\nA"),
        "\n\n" + CONLL + "\n\n",
        CONLL.replace("\n\nA", "\n \t \nA"),
        CONLL.replace(" ", "\t"),
        CONLL.replace("-DOCSTART- -X- O O\n\n", ""),
        CONLL.replace("O O\n\nEU", "O O\nEU"),
        CONLL.replace("\n\nA", "\n-DOCSTART-\nA"),
    ],
    ids=[
        "no last newline",
        "CRLF",
        "BOM",
        "double blank line",
        "blank ends",
        "blanks in the divider",
        "TABs",
        "no document",
        "document without blank line",
        "document as divider",
    ],
)
def test_the_same_text_however_it_is_written(tmp_path: Path, content: str) -> None:
    plain = read("conll", tmp_path / "a", CONLL, "eng.train")
    other = read("conll", tmp_path / "b", content, "eng.train")
    assert other.text_fingerprint() == plain.text_fingerprint()
    for column in ("ner", "pos", "chunk"):
        assert other.labels_fingerprint(column) == plain.labels_fingerprint(column)


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\u2028", "\x85", "\x0b", "\x0c", "\u200b"])
@pytest.mark.parametrize(
    ("name", "file", "row"),
    [
        ("conll", "eng.train", "a{}b NN I-NP O\nc NN I-NP O\n"),
        ("wnut17", "wnut17train.conll", "a{}b\tO\nc\tO\n"),
        ("wikiann/en", "train", "en:a{}b\tO\nen:c\tO\n"),
        ("atis", "train/seq.in", "a{}b c\n"),
    ],
)
def test_only_ascii_blanks_divide(
    tmp_path: Path, space: str, name: str, file: str, row: str
) -> None:
    if name == "atis":
        (tmp_path / "train").mkdir()
        (tmp_path / "train" / "seq.out").write_text("O O\n")
    split = read(name, tmp_path, row.format(space), file)
    assert words(split) == [(f"a{space}b", "c")]


def test_a_word_that_is_a_blank_alone(tmp_path: Path) -> None:
    split = read("wnut17", tmp_path, "\xa0\tO\nb\tO\n", "wnut17train.conll")
    assert words(split) == [("\xa0", "b")]


def test_wnut_divided_by_a_lone_tab_and_joined_tags(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = "RT\tO\n@x\tB-person,B-group\n\t\n#\tO\n\t\n"
    with caplog.at_level(logging.WARNING):
        split = read("wnut17", tmp_path, content, "emerging.test.annotated", "test")
    assert words(split) == [("RT", "@x"), ("#",)]
    assert split.labels["ner"] == (("O", "B-person"), ("O",))
    assert "1 words have several tags; the first is taken" in caplog.text


def test_wikiann_prefix_ends_at_the_first_colon(tmp_path: Path) -> None:
    content = "de::\tO\nde:http://a:b\tB-ORG\nde:de:\tI-ORG\n"
    split = read("wikiann/de", tmp_path, content, "train")
    assert words(split) == [(":", "http://a:b", "de:")]
    sub = read("wikiann/de", tmp_path / "all", content, "de/train").examples
    assert sub == split.examples


def test_wikiann_of_another_language(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train, line 2: .*'de:'.*'fr:b'.*another language"):
        read("wikiann/de", tmp_path, "de:a\tO\nfr:b\tO\n", "train")


UD = (
    "# newdoc\n# sent_id = s-1\n# text = don't\n"
    "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n"
    "2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_\n"
    "3\t10 000\t_\tNUM\tCD\t_\t1\tobj\t_\t_\n\n"
)


def test_ud_skips_ranges_and_empty_nodes(tmp_path: Path) -> None:
    text = UD + UD.replace("s-1", "s-2").removesuffix("\n\n")
    split = read("ud/en_x", tmp_path, text, "en_x-ud-train.conllu")
    assert words(split) == [("do", "n't", "10 000")] * 2
    assert split.labels["upos"] == (("AUX", "PART", "NUM"),) * 2
    assert split.labels["xpos"] == (("VB", "RB", "CD"),) * 2
    assert [example.id for example in split.examples] == ["s-1", "s-2"]


def test_ud_without_a_sentence_id_and_without_xpos(tmp_path: Path) -> None:
    rows = "1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_\n"
    split = read(
        "ud/en_x", tmp_path, f"{UD.replace('VB', '_')}\n{rows}", "en_x-ud-dev.conllu", "dev"
    )
    assert [example.id for example in split.examples] == ["s-1", "dev-1"]
    blind = read("ud/en_x", tmp_path, rows, "en_x-ud-test.conllu", "test")
    assert set(blind.labels) == {"upos"}
    assert words(blind) == [("#",)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1\tdo\t", "1\tdo\tx\t"), r"train.conllu, line 5: expected 10 columns.*found 11"),
        (("3\t10", "4\t10"), r"line 8: expected word id 3, found '4'"),
        (("\n\n", "\n" + UD), r"line 13: expected word id 4, found '1'"),
    ],
)
def test_ud_malformed(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read("ud/en_x", tmp_path, UD.replace(*change), "en_x-ud-train.conllu")


def test_ud_repeated_sentence_id(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 14: the id 's-1' occurs twice"):
        read("ud/en_x", tmp_path, UD + UD, "en_x-ud-train.conllu")


def parallel(folder: Path, text: str, tags: str, intents: str | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "seq.in").write_bytes(text.encode())
    (folder / "seq.out").write_bytes(tags.encode())
    if intents is not None:
        (folder / "label").write_bytes(intents.encode())
    return folder


@pytest.mark.parametrize(("name", "folder"), [("atis", "dev"), ("snips", "valid")])
@pytest.mark.parametrize("intents", [None, "flight#airfare \r\ngreet", "flight#airfare\ngreet\n\n"])
def test_parallel_files(tmp_path: Path, name: str, folder: str, intents: str | None) -> None:
    text, tags = "to  new york \r\nhi\n\n", "O B-city I-city\nO"
    parallel(tmp_path / folder, text, tags, intents)
    split = get_task(name).read("dev", tmp_path)
    assert words(split) == [("to", "new", "york"), ("hi",)]
    labelled = {} if intents is None else {"intent": (("flight#airfare",), ("greet",))}
    assert split.labels == {"slots": (("O", "B-city", "I-city"), ("O",)), **labelled}
    assert split.origin == f"{folder}/seq.in in {tmp_path}"


@pytest.mark.parametrize("name", ["atis", "snips", "matis/de"])
def test_slots_are_the_default_before_intents(name: str) -> None:
    task = get_task(name)
    assert task.metrics == {"slots": "span-f1", "intent": "micro-f1"}
    assert task.kinds == {"slots": "tagging", "intent": "sentence"}
    chosen = get_task(name, TextOptions(kind="sentence"), "intent")
    assert (chosen.columns[0], chosen.kind) == ("intent", "tagging")
    with pytest.raises(OptionError, match=r"--label intent is of kind sentence"):
        get_task(name, TextOptions(kind="sentence"))


@pytest.mark.parametrize(
    ("text", "tags", "intents", "message"),
    [
        ("a b\nc d\n", "O O\nO\n", None, r"seq.out, line 2: 1 tags for the 2 words of seq.in"),
        ("a\nb\n", "O\n", None, r"seq.in has 2 lines, but .*seq.out has 1"),
        ("a\n\nb\n", "O\n\nO\n", None, r"seq.out, line 2: an example without words"),
        ("a\n", "X-city\n", None, r"seq.out, line 1: 'X-city' in column 'slots' is no BIO tag"),
        ("", "", None, r"split 'train' of atis is empty"),
        ("a\nb\n", "O\nO\n", "a\n", r"seq.in has 2 lines, but .*label has 1; .* of intents"),
        ("a\nb\n", "O\nO\n", "\nb\n", r"line 1: an empty label in column 'intent'"),
    ],
)
def test_parallel_files_malformed(
    tmp_path: Path, text: str, tags: str, intents: str | None, message: str
) -> None:
    parallel(tmp_path / "train", text, tags, intents)
    with pytest.raises(DataError, match=message):
        get_task("atis").read("train", tmp_path)
    (tmp_path / "train" / "seq.out").unlink()
    with pytest.raises(MissingFileError, match=r"train/seq.out: no such file"):
        get_task("atis").read("train", tmp_path)


MATIS = "id\tutterance\tslot_labels\tintent\n7\tflug\xa0nach \u201cköln\t O B-city\tflight#x \n"


@pytest.mark.parametrize("file", ["train_DE.tsv", "train_de.tsv", "de/train_DE.tsv"])
def test_matis(tmp_path: Path, file: str) -> None:
    split = read("matis/de", tmp_path, MATIS + '8\tein "\tO O\tx\n', file)
    assert words(split) == [("flug\xa0nach", "\u201cköln"), ("ein", '"')]
    slots = (("O", "B-city"), ("O", "O"))
    assert split.labels == {"slots": slots, "intent": (("flight#x",), ("x",))}
    assert [example.id for example in split.examples] == ["7", "8"]
    blind = read("matis/de", tmp_path, MATIS.replace("intent", "other"), file)
    assert blind.labels == {"slots": slots[:1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MATIS.replace("O B-city", "O"), r"line 2: 2 words but 1 slot labels"),
        (MATIS.replace("\tflight", ""), r"line 2: expected 4 columns.*found 3"),
        (MATIS.replace("slot_labels", "slots"), r"line 1: expected a header.*slot_labels missing"),
        (MATIS.replace("flight#x", ""), r"line 2: an empty label in column 'intent'"),
        ("", "is empty"),
    ],
)
def test_matis_malformed(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read("matis/de", tmp_path, content, "train_DE.tsv")


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        (
            "conll",
            "eng.train",
            "a NN I-NP O\nb NN I-NP\n",
            r"train, line 2: expected 4 .*found 3",
        ),
        ("conll", "eng.train", "a NN O\n", r"eng.train, line 1: expected 4 columns.*found 3"),
        ("conll", "eng.train", "a NN I-NP PER\n", r"line 1: 'PER' in column 'ner' is no BIO tag"),
        ("conll", "eng.train", "\na NN I-NP B-\n", r"line 2: 'B-' in column 'ner'"),
        ("conll", "eng.train", "-DOCSTART- -X- O O\n\n", r"split 'train' of conll is empty"),
        ("conll", "eng.train", "", "is empty"),
        ("conll", "eng.train", b"a NN I-NP O\n\xe9t\xe9 NN I-NP O\n", r"line 2: not UTF-8.*0xe9"),
        ("conll", "eng.train", "\ufeffa NN I-NP O\n".encode("utf-16"), r"line 1: not UTF-8"),
        ("wnut17", "wnut17train.conll", "a\tO\nb\n", r"line 2: expected 2 columns.*TAB.*found 1"),
        ("wnut17", "wnut17train.conll", "a b c\n", r"line 1: expected 2 columns.*found 3"),
        ("wnut17", "wnut17train.conll", "a\t\n", r"line 1: an empty label in column 'ner'"),
        ("wikiann/en", "train", "en:a\tO\tx\n", r"line 1: expected 2 columns.*found 3"),
    ],
)
def test_malformed(
    tmp_path: Path, name: str, file: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(name, tmp_path, content, file)
    assert "\n" not in str(caught.value)


def test_missing_file_names_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError) as caught:
        get_task("conll").read("dev", tmp_path)
    message = str(caught.value)
    assert message.endswith(f"in {tmp_path}; tried: eng.testa, valid.txt.")
    with pytest.raises(MissingFileError, match=r"tried: train, de/train\."):
        get_task("wikiann/de").read("train", tmp_path)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_refuses_a_missing_folder_and_an_unknown_split(
    name: str, tmp_path: Path
) -> None:
    task = TASKS[name].sample()
    with pytest.raises(MissingFileError, match=r"absent: no such folder"):
        task.read("train", tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingFileError, match=r"file: is a file, not a folder"):
        task.read("train", tmp_path / "file")
    with pytest.raises(UnknownNameError, match=rf"split of {task.name} 'eval'.*{task.splits[0]}"):
        task.read("eval", tmp_path)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_well_formed(name: str) -> None:
    for task in TASKS[name].tasks():
        assert get_task(task.name).name == task.name
        assert task.kind in KINDS
        assert set(task.metrics.values()) <= set(METRICS)
        assert set(task.metrics) == set(task.columns) == set(task.kinds)
        assert "train" in task.splits
        assert task.slug == task.name.replace("/", "-")
        with pytest.raises(UnknownNameError, match="label column of"):
            get_task(task.name, label="absent")
