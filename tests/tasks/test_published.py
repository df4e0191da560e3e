"""Published formats: every trap of the files, on small files written here."""

from pathlib import Path

import pytest

from probekit.base.kinds import KINDS
from probekit.errors import DataError, MissingFileError, OptionError, UnknownNameError
from probekit.metrics import METRICS
from probekit.tasks import TASKS, Split, TextOptions, get_task
from tests.tasks.own_files import Content, ids, shown, words, write

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nA NN I-NP I-PER\n"
EU = "ner,pos,chunk: EU/B-ORG/NNP/B-NP rejects/O/VBZ/B-VP | A/B-PER/NN/B-NP"
UD = (
    "# newdoc\n# sent_id = s-1\n# text = don't\n"
    "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n"
    "2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_\n"
    "3\t10 000\t_\tNUM\tCD\t_\t1\tobj\t_\t_\n\n"
)
DO_NOT = "do/AUX/VB/root/0 n't/PART/RB/advmod/1 10 000/NUM/CD/obj/1"
MATIS = "id\tutterance\tslot_labels\tintent\n7\tflug\xa0nach \u201cköln\t O B-city\tflight#x \n"
FLUG = "slots,intent: flug\xa0nach/O/flight#x"


def read(name: str, folder: Path, files: dict[str, Content], split: str = "train") -> Split:
    """Write files and read them as a split of a task."""
    for file, content in files.items():
        write(folder / file, content)
    return get_task(name).read(split, folder)


@pytest.mark.parametrize(
    ("name", "file", "content", "expected"),
    [
        ("conll", "eng.train", CONLL, EU),
        # the same text however it is written
        ("conll", "eng.train", CONLL.removesuffix("\n"), EU),
        ("conll", "eng.train", CONLL.replace("\n", "\r\n"), EU),
        ("conll", "eng.train", "\ufeff" + CONLL, EU),
        ("conll", "eng.train", CONLL.replace("\n\nA", "\n\n\n\nA"), EU),
        ("conll", "eng.train", "\n\n" + CONLL + "\n\n", EU),
        ("conll", "eng.train", CONLL.replace("\n\nA", "\n \t \nA"), EU),
        ("conll", "eng.train", CONLL.replace(" ", "\t"), EU),
        ("conll", "eng.train", CONLL.replace("-DOCSTART- -X- O O\n\n", ""), EU),
        ("conll", "eng.train", CONLL.replace("O O\n\nEU", "O O\nEU"), EU),
        ("conll", "eng.train", CONLL.replace("\n\nA", "\n-DOCSTART-\nA"), EU),
        # IOB1 where two touch; other files are kept as written; two columns are word and NER
        (
            "conll",
            "eng.train",
            "a X I-NP I-PER\nb X B-NP B-PER\nc X I-NP I-PER\nd X I-VP I-LOC\n",
            "ner,pos,chunk: a/B-PER/X/B-NP b/B-PER/X/B-NP c/I-PER/X/I-NP d/B-LOC/X/B-VP",
        ),
        ("conll", "train.txt", "a X B-NP I-PER\n", "ner,pos,chunk: a/I-PER/X/B-NP"),
        ("conll", "train.txt", "EU\tB-ORG\nsays\tO\n", "ner: EU/B-ORG says/O"),
        # only ASCII blanks divide
        *(
            row
            for blank in ("\xa0", "\u3000", "\u2028", "\x85", "\x0b", "\u200b")
            for row in (
                ("conll", "train.txt", f"a{blank}b O\nc O\n", f"ner: a{blank}b/O c/O"),
                ("wnut17", "train.txt", f"a{blank}b\tO\nc\tO\n", f"ner: a{blank}b/O c/O"),
                ("wikiann/en", "train", f"en:a{blank}b\tO\n", f"ner: a{blank}b/O"),
            )
        ),
        ("wnut17", "wnut17train.conll", "\xa0\tO\nb\tO\n", "ner: \xa0/O b/O"),
        # a lone TAB divides; the first of several tags is taken
        ("wnut17", "train.txt", "RT\tO\n@x\tB-a,B-b\n\t\n#\tO\n\t\n", "ner: RT/O @x/B-a | #/O"),
        # a prefix ends at the first colon
        (
            "wikiann/de",
            "de/train",
            "de::\tO\nde:http://a:b\tB-ORG\nde:de:\tI-ORG\n",
            "ner: :/O http://a:b/B-ORG de:/I-ORG",
        ),
        # ranges and empty nodes are no words; a column of "_" is none
        (
            "ud/en_x",
            "en_x-ud-train.conllu",
            UD + UD.replace("s-1", "s-2").removesuffix("\n\n"),
            f"upos,xpos,deprel,head: {DO_NOT} | {DO_NOT}",
        ),
        ("ud/en_x", "en_x-ud-train.conllu", "1\t#\t#\tSYM" + "\t_" * 6, "upos: #/SYM"),
        # a no-break space is part of a word
        *(
            ("matis/de", file, MATIS.replace("\xa0nach \u201cköln\t O B-city", "\xa0nach\tO"), FLUG)
            for file in ("train_DE.tsv", "train_de.tsv", "de/train_DE.tsv")
        ),
        ("matis/de", "train_DE.tsv", MATIS.replace("intent", "other"), None),
    ],
)
def test_what_is_read(name: str, file: str, content: Content, expected: str, tmp_path) -> None:
    split = read(name, tmp_path, {file: content})
    flug = "slots: flug\xa0nach/O \u201cköln/B-city"
    assert shown(split) == (expected or flug)
    path = tmp_path / file
    assert split.origin == f"{path.name} in {path.parent}"


FAULTS: list[tuple[str, dict[str, Content], str]] = [
    ("conll", {"eng.train": "a NN I-NP O\nb NN I-NP\n"}, r"train, line 2: expected 4 .*found 3"),
    ("conll", {"eng.train": "a NN O\n"}, r"eng.train, line 1: expected 4 .*found 3"),
    ("conll", {"eng.train": "a NN I-NP PER\n"}, r"line 1: 'PER' in column 'ner' is not a BIO tag"),
    ("conll", {"eng.train": "\na NN I-NP B-\n"}, r"line 2: 'B-' in column 'ner'"),
    ("conll", {"eng.train": "-DOCSTART- -X- O O\n\n"}, r"split 'train' of conll is empty"),
    ("conll", {"eng.train": ""}, "is empty"),
    ("conll", {"eng.train": b"a NN I-NP O\n\xe9t\xe9 NN I-NP O\n"}, r"line 2: not UTF-8.*0xe9"),
    ("conll", {"eng.train": "\ufeffa NN I-NP O\n".encode("utf-16")}, r"line 1: not UTF-8"),
    ("wnut17", {"train.txt": "a\tO\nb\n"}, r"line 2: expected 2 columns.*TAB.*found 1"),
    ("wnut17", {"train.txt": "a b c\n"}, r"line 1: expected 2 columns.*found 3"),
    ("wnut17", {"train.txt": "a\t\n"}, r"line 1: the label in column 'ner' is empty"),
    ("wikiann/en", {"train": "en:a\tO\tx\n"}, r"line 1: expected 2 columns.*found 3"),
    ("wikiann/de", {"train": "de:a\tO\nfr:b\tO\n"}, r"line 2: .*'de:'.*'fr:b'.*another language"),
    *(
        ("ud/en_x", {"en_x-ud-train.conllu": content}, message)
        for content, message in {
            UD.replace("1\tdo\t", "1\tdo\tx\t"): r"line 5: expected 10 .*found 11",
            UD.replace("3\t10", "4\t10"): r"line 8: expected word id 3, found '4'",
            UD.replace("\n\n", "\n" + UD): r"line 13: expected word id 4, found '1'",
            UD + UD: r"line 14: the id 's-1' occurs twice",
        }.items()
    ),
    *(
        ("atis", {"train/seq.in": text, "train/seq.out": tags, **more}, message)
        for text, tags, more, message in (
            ("a b\nc d\n", "O O\nO\n", {}, r"seq.out, line 2: 1 tags for the 2 words of seq.in"),
            ("a\nb\n", "O\n", {}, r"seq.in has 2 lines, but .*seq.out has 1"),
            ("a\n\nb\n", "O\n\nO\n", {}, r"seq.out, line 2: an example without words"),
            (
                "a\n",
                "X-city\n",
                {},
                r"seq.out, line 1: 'X-city' in column 'slots' is not a BIO tag",
            ),
            ("", "", {}, r"split 'train' of atis is empty"),
            ("a\nb\n", "O\nO\n", {"train/label": "a\n"}, r"2 lines, .*label has 1; .* of intents"),
            ("a\nb\n", "O\nO\n", {"train/label": "\nb\n"}, r"line 1: the label in column 'in"),
        )
    ),
    *(
        ("matis/de", {"train_DE.tsv": content}, message)
        for content, message in {
            MATIS.replace("O B-city", "O"): r"line 2: 2 words but 1 slot labels",
            MATIS.replace("\tflight", ""): r"line 2: expected 4 .*found 3",
            MATIS.replace(
                "slot_labels", "slots"
            ): r"line 1: expected a header.*slot_labels missing",
            MATIS.replace("flight#x", ""): r"line 2: the label in column 'intent' is empty",
            "": "is empty",
        }.items()
    ),
]


@pytest.mark.parametrize(("name", "files", "message"), FAULTS)
def test_what_is_refused(name: str, files: dict[str, Content], message: str, tmp_path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(name, tmp_path, files)
    assert "\n" not in str(caught.value)


def test_what_is_said_of_tags(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read("conll", tmp_path, {"train.txt": "a X B-NP I-PER\nb X I-NP I-PER\n"})
    assert "1 entities in column 'ner' begin with I-" in caplog.text
    read("wnut17", tmp_path, {"test.txt": "@x\tB-person,B-group\n"}, "test")
    assert "1 words have several tags; the first is used" in caplog.text


def test_ids_are_the_files_own_or_count_on(tmp_path: Path) -> None:
    assert ids(read("conll", tmp_path, {"train.txt": "a O\n\nb O\n"})) == ["train-0", "train-1"]
    content = f"{UD}\n1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_\n"
    assert ids(read("ud/en_x", tmp_path, {"en_x-ud-dev.conllu": content}, "dev")) == [
        "s-1",
        "dev-1",
    ]
    rows = MATIS + '8\tein "\tO O\tx\n'
    assert ids(read("matis/de", tmp_path, {"train_DE.tsv": rows})) == ["7", "8"]


@pytest.mark.parametrize(("name", "folder"), [("atis", "dev"), ("snips", "valid")])
@pytest.mark.parametrize("intents", [None, "flight#airfare \r\ngreet", "flight#airfare\ngreet\n\n"])
def test_parallel_files(tmp_path: Path, name: str, folder: str, intents: str | None) -> None:
    text, tags = "to  new\u2028york \r\nhi\n\n", "O B-city\nO"
    files: dict[str, Content] = {f"{folder}/seq.in": text, f"{folder}/seq.out": tags}
    split = read(
        name, tmp_path, files | ({} if intents is None else {f"{folder}/label": intents}), "dev"
    )
    assert words(split) == [("to", "new\u2028york"), ("hi",)]
    labelled = {} if intents is None else {"intent": (("flight#airfare",), ("greet",))}
    assert split.labels == {"slots": (("O", "B-city"), ("O",)), **labelled}
    assert split.origin == f"{folder}/seq.in in {tmp_path}"
    (tmp_path / folder / "seq.out").unlink()
    with pytest.raises(MissingFileError, match=rf"{folder}/seq.out: no such file"):
        get_task(name).read("dev", tmp_path)


@pytest.mark.parametrize("name", ["atis", "snips", "matis/de"])
def test_slots_are_the_default_before_intents(name: str) -> None:
    task = get_task(name)
    assert task.metrics == {"slots": "span-f1", "intent": "micro-f1"}
    assert task.kinds == {"slots": "tagging", "intent": "sentence"}
    chosen = get_task(name, TextOptions(kind="sentence"), "intent")
    assert (chosen.columns[0], chosen.kind) == ("intent", "tagging")
    with pytest.raises(OptionError, match=r"--label intent is of kind sentence"):
        get_task(name, TextOptions(kind="sentence"))
    with pytest.raises(OptionError, match=rf"{name} needs --data DIR.*https://"):
        task.read("train", None)


@pytest.mark.parametrize(
    ("name", "split", "tried"),
    [
        ("conll", "dev", "eng.testa, valid.txt"),
        ("wikiann/de", "train", "train, de/train"),
        ("glue/sst2", "train", "train.tsv, SST-2/train.tsv, sst2/train.tsv"),
    ],
)
def test_missing_file_names_what_was_tried(tmp_path, name: str, split: str, tried: str) -> None:
    with pytest.raises(MissingFileError) as caught:
        get_task(name).read(split, tmp_path)
    assert str(caught.value).endswith(f"in {tmp_path}; tried: {tried}.")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_refuses_a_missing_folder_and_an_unknown_split(name: str, tmp_path) -> None:
    task = TASKS[name].sample()
    with pytest.raises(MissingFileError, match=r"absent: no such folder"):
        task.read("train", tmp_path / "absent")
    with pytest.raises(MissingFileError, match=r"file: is a file, not a folder"):
        task.read("train", write(tmp_path / "file", ""))
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
