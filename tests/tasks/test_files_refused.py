"""Small files of the user's own that are refused, each with the options typed and what is said."""

import pytest

from probekit.errors import DataError, OptionError, UnknownNameError
from tests.tasks.own_files import CONLLU, Content, json_lines, read, write

SENTENCE, PAIR, SCORE, TEXT = (
    f"kind={kind}" for kind in ("sentence", "pair", "regression", "language-modelling")
)
TWO_TEXTS = "sentence1\tsentence2\tlabel\nA fine film .\tOne\tgood\nBad .\tTwo\tbad\n"
IDS = "group,token,tag\ns1,a,O\ns1,b,O\ns2,c,O\ns3,d,O\ns3,e,O\ns3,f,O\n"
DEEP = "[" * 200_000 + "]" * 200_000
FINE = "a fine day,good\nbad rain,bad\n"
HAT = "text^label\na^b\n"
SPANS = [{"text": "Paris", "entities": [{"label": "LOC"}], "relations": []}]


def tagged(*rows: object, words: str = "xy") -> list[object]:
    """Records of the same words, and labels."""
    return [{"tokens": list(words), "tags": row} for row in rows]


def labelled(*values: object) -> list[object]:
    """Texts with a label each."""
    return [{"text": f"text {value}", "label": value} for value in values]


def rows(*words: str) -> str:
    return "".join(f"{word} X\n" for word in words)


FAULTS: list[tuple[str, Content, str, str]] = [
    # nothing there
    ("a.conll", "", "", r"split 'train' of .*a.conll is empty"),
    ("a.conll", "\n \t\n", "", "is empty"),
    ("a.tsv", "token\ttag\n", "", "is empty"),
    ("a.jsonl", "", "", "is empty"),
    ("a.csv", "text,label\n", SENTENCE, "is empty"),
    ("a.txt", " \n\n", TEXT, "is empty"),
    # rows and cells
    ("a.conll", "a\tO\nb O\n", "", r"line 2: expected 2 columns separated by a TAB.*found 1"),
    ("a.conll", "a\tO\n\tO\tX\n", "", r"line 2: expected 2 columns.*found 3\.$"),
    ("a.conll", "a O\n\n#tag\nb O\n", "", r"line 3: expected 2 columns.*found 1\. \(A comment"),
    ("a.tsv", "a\tO\nb\n", "", r"line 2: expected 2 cells.*found 1"),
    ("a.csv", "a,O\nb,,O\n", "", r"line 2: expected 2 cells.*found 3"),
    ("a.csv", ",tag\nx\n0,B-X\n", "", r"line 2: expected 2 cells.*found 1"),
    ("a.csv", "sep=;\ntext;label\na;b;c\n", SENTENCE, r"line 3: expected 2 cells"),
    ("a.tsv", "text\tlabel\nfine 1\n", SENTENCE, r"line 2: expected 2 cells.*found 1"),
    ("a.csv", 'text,label\nfine,1\n"open,0\nc,1\n', SENTENCE, r"line 3: .*quotation mark is writ"),
    ("a.csv", 'text,label\n"a"b,1\n', SENTENCE, r"line 2: .*quotation mark is written"),
    ("a.csv", 'say,O\n",O\nhi,O\n"end,O\n', "", r"line 2: .*\"\"\"\""),
    ("a.csv", 'say,O\n",O\nhi,O\n', "", "line 2"),
    ("a.csv", 'text,label\r\n"one\r\n\r\ntwo",x\r\nfour,\r\n', SENTENCE, "line 5: no label"),
    ("a.conllu", CONLLU + "1\tx\n", "label=upos", r"line 3: expected 10 TAB-sep"),
    # names of columns
    ("a.csv", "token,tag, tag\na,O,X\n", "", r"two columns are called 'tag'; rename one"),
    ("a.csv", "text,text\nfine,1\n", SENTENCE, r"line 1: two columns are called 'text'"),
    ("a.jsonl", [{"tokens": [], "tag": [], " tag": []}], "", r"two columns are called 'tag'"),
    ("a.tsv", "film\tgrade\nso\t1\nbad\t0\n", SENTENCE, r"line 1: 'grade' is above a column"),
    ("a.jsonl", [{"text": "a b"}], "", "no column of lists of words"),
    ("a.jsonl", SPANS, "", "no column of lists of words"),
    ("a.jsonl", [{"label": 1}], SENTENCE, r"has no text column, such as text"),
    ("a.jsonl", [{"tokens": ["a"], "label": 1}], SENTENCE, "has no text column"),
    ("a.jsonl", [{"text": "a", "labels": ["x", "y"]}], SENTENCE, "line 1: column 'labels' hold"),
    ("a.csv", "token\na\n", "label=tag", "no labels in column 'tag'"),
    ("a.jsonl", [{"tokens": ["a"]}], "label=t", "no labels in column 't'"),
    # labels of words
    (
        "a.conll",
        "a O\nb B_X\nc B-X\n",
        "",
        r"a.conll, line 2: 'B_X' in column '1' is not a BIO tag",
    ),
    ("a.conll", "a S-X\nb B-X\n", "", r"line 1: 'S-X'.*convert other schemes"),
    ("a.conll", "a B-X\nb E-X\nc O\n\nd B-X\ne O\n", "", r"line 2: 'E-X' .*convert other sch"),
    ("a.csv", "token,tag\na,X\n\nb,\n", "", r"line 4: the label in column 'tag' is empty"),
    ("a.jsonl", [{"tokens": []}], "", r"line 1: no words in column 'tokens'"),
    ("a.jsonl", "\n" + json_lines(*tagged(["X"])), "", r"a.jsonl, line 2: 2 words but 1 labels"),
    ("a.jsonl", [*tagged(["X", "Y"]), {"tokens": ["a"]}], "", r"line 2: no labels in column 'tag"),
    ("a.jsonl", [*tagged(["X", "Y"]), {"tags": ["X"]}], "", r"line 2: no words in column 'tokens'"),
    ("a.jsonl", [*tagged(["X", "Y"]), {"tokens": ["a", None]}], "", r"line 2: expected a list of"),
    *(
        ("a.jsonl", tagged([0, 1], [0, 1], [0, wrong]), "", r"line 3: .*in column 'tags'")
        for wrong in (2.5, {"a": 1}, ["B"])
    ),
    ("a.jsonl", [{"tags": ["O"], "s": "text"}], "text=s label=tags", r"list of strings in"),
    ("a.jsonl", [{"tokens": ["a"], "id": 1}] * 2, "", r"line 2: the id '1' occurs twice"),
    # labels of texts
    ("a.jsonl", labelled("a", None, "b"), SENTENCE, r"line 2: no label in column 'label', but oth"),
    ("a.jsonl", labelled(0, 1, -1), SENTENCE, r"line 3: no label in column 'label' \(-1 means no"),
    ("a.jsonl", labelled("a", "b", ""), SENTENCE, r"line 3: no label in column 'label'"),
    ("a.jsonl", labelled(["a"], [], ["b"]), SENTENCE, r"line 2: no label in column 'label'"),
    ("a.jsonl", labelled("a", ["x", "y"]), f"{SENTENCE} label=label", "line 2: .*kind multilabel"),
    ("a.jsonl", labelled(1, 0.5, 1), SENTENCE, r"line 2: expected a class .*found 0.5.*regression"),
    *(
        ("a.tsv", f"text\tlabel\na b\tx\nc\t{mark}\n", SENTENCE, "line 3: no .*--skip unlabelled")
        for mark in ("-", "_", "-100", "-1", "-1.0", "", "n/a", "null")
    ),
    ("a.tsv", "text\tscore\na b\t2\nc\t-100\n", SCORE, "line 3: no label .*--skip unlabelled"),
    ("a.jsonl", labelled(1, None, 2), SCORE, r"line 2: no label in column 'label'"),
    ("a.jsonl", labelled(1, "good", 2), SCORE, r"line 2: 'good' in column 'label' is not a finite"),
    (
        "a.jsonl",
        labelled(1, 2, float("nan")),
        SCORE,
        r"line 3: 'nan' in column 'label' is not a fin",
    ),
    (
        "a.jsonl",
        labelled(1, float("inf"), 2),
        SCORE,
        r"line 2: 'inf' in column 'label' is not a fin",
    ),
    (
        "a.jsonl",
        labelled(1, 1e39, 2),
        SCORE,
        r"line 2: '1e\+39' in column 'label' is not a finite nu",
    ),
    (
        "a.jsonl",
        labelled("3,8", "2", "1"),
        SCORE,
        r"line 1: '3,8' in column 'label' is not a finite",
    ),
    ("a.jsonl", labelled(True, 2, 3), SCORE, r"line 1: 'True' in column 'label' is not a finite"),
    # texts
    (
        "a.csv",
        "text,label\nfine,1\n ,0\n",
        SENTENCE,
        r"a.csv, line 3: no text in column 'text'; fi",
    ),
    ("a.csv", "text,label\na,1\n,0\n ,1\n", SENTENCE, "line 3: .*first of 2 such.*--skip blank"),
    ("a.jsonl", [*labelled(1), {"label": 1}], SENTENCE, r"line 2: no text in"),
    ("a.jsonl", [{"t": "a"}, {"t": 3}], f"{SENTENCE} text=t", r"line 2: expected text .*found int"),
    ("a.jsonl", [{"text": "a", "id": 1}] * 2, SENTENCE, r"line 2: the id '1' occurs twice"),
    ("a.csv", f"text,label\n{FINE}", "kind=tagging", r"holds whole texts, such as 'a fin"),
    # no kind, and what is read does not fit labels of words
    ("a.jsonl", [{"text": "a b"}], "", r"no --kind was given, and it is read as tagging"),
    *(
        ("a.conll", f"{blank}\tNOUN\n{blank}\tVERB\n.\tPUNCT\n", "", "2 of 3 words are written '_'")
        for blank in ("_", "____")
    ),
    ("a.conll", rows(*map(str, range(20))), "", r"none of 20 words has a letter, such as '0'"),
    ("a.conll", rows(*["*"] * 20), "", r"all 20 words are '\*'"),
    ("a.conll", rows(*["word"] * 20), "", r"all 20 words are 'word'"),
    ("a.tsv", "text\tlabel\n" + "_\tx\n" * 3, SENTENCE, r"3 of 3 texts are written '_'"),
    (
        "a.tsv",
        "text\tlabel\n" + "".join(f"#{n}\t{n % 2}\n" for n in range(20)),
        SENTENCE,
        "none of 20 texts has a letter, such as '#0'",
    ),
    # sentences that nothing divides
    *(
        (
            "a." + form,
            f"token{mark}tag\n" + f"w{mark}O\n" * 501,
            "",
            r"sentence of 501 words; .* bl",
        )
        for form, mark in (("csv", ","), ("tsv", "\t"))
    ),
    ("a.csv", IDS, "label=tag", r"one sentence of 6 words, .*'group'.*--sentences group"),
    ("a.csv", IDS.replace("s1,b", ",b"), "label=tag", r"'group'.*--sentences group"),
    ("a.conll", "7 a O\n7 b O\n8 c O\n", "text=1", r"one sentence of 3 words, .*--sentences 0"),
    # encodings and packing
    ("a.conll", b"a O\n\n\xff O\n", "", "line 3: not UTF-8"),
    ("a.tsv", "привет мир O\n".encode("cp1251"), "", r"a.tsv, line 1: not UTF-8 .*iconv\.$"),
    ("a.tsv", "Россия самое большое государство мира O\n".encode("cp1251"), "", r"is cp1251\."),
    ("a.tsv", "schön O\n".encode() + b"sch\xf6n O\n", "", r"a.tsv, line 2: not UTF-8"),
    ("a.tsv", "a\tO\n".encode("utf-16-le"), "", r"a quarter of the bytes are zeros.*utf-16le"),
    ("a.conll.gz", b"a O\n", "", "a.conll.gz: not a readable gzip file"),
    ("a.parquet", "PAR1 but not really", "", r"a.parquet: not a readable Parquet file"),
    ("a.parquet", "PAR1", SENTENCE, r"a.parquet: not a readable Parquet"),
    # formats that a kind has not
    ("a.xml", "a O\n", "", r"unknown format '.xml'; expected .conll, .conllu"),
    ("a.conll", "a O\n", SENTENCE, r"'.conll'; expected .jsonl.*For .conll use .*tagging"),
    ("a.txt", "a\n", SENTENCE, r"unknown format '.txt'; .*For .txt use --kind language-modelling"),
    ("a.xyz", "a\n", SENTENCE, r"unknown format '.xyz'; .*for kind sentence\.$"),
    ("a.txt", "Running text.\nAnd one more.\n", "", r"running text, give --kind lang.* line 2: "),
    # JSON
    ("a.jsonl", '{"tokens": ["a"]}\n{"tokens"\n', "", r"a.jsonl, line 2: not JSON"),
    ("a.jsonl", "[1]\n", "", r"line 1: expected one JSON object per line, found list"),
    ("a.jsonl", '{"tokens": ["\\ud800"]}\n', "", r"line 1: half of a surrogate pair"),
    *(
        (file, f'{{"text": "a", "label": 1}}\n{second}\n', SENTENCE, message)
        for file in ("a.jsonl", "a.json")
        for second, message in {
            f'{{"text": "a", "label": {"9" * 5000}}}': "line 2: a whole number with more digits",
            f'{{"text": "a", "label": {DEEP}}}': "line 2: .*nested too deeply",
            '{"\\udfff": "a"}': "line 2: half of a surrogate pair",
            '{"text": }': "line 2: not JSON",
            "3": "line 2: expected .*JSON object.*, found int",
        }.items()
    ),
    ("a.json", '[{"text": "a"}, ', SENTENCE, "line 1: not JSON"),
    ("a.json", '[{"text": "a"} {"text": "b"}]', SENTENCE, "line 1: not JSON"),
    ("a.json", '[{"text": "a"}]\n[]', SENTENCE, "line 1: expected JSON objects, found list"),
    ("a.json", '{"text": ["a"], "label": ["x", "y"]}', SENTENCE, r"lengths \(text 1, label 2\)"),
    ("a.json", '[["a", "x"]]', SENTENCE, "row 1: expected JSON objects, found list"),
    *(
        (
            "a.jsonl",
            f'{{"text": "a", "label": {value}}}\n',
            SENTENCE,
            r"column 'label' holds \W+x.*--label",
        )
        for value in ('["x", "y"]', '{"x": 1}', '[{"x": 1}]', '[["x"]]')
    ),
]


@pytest.mark.parametrize(("file", "content", "typed", "message"), FAULTS)
def test_what_is_refused(file: str, content: Content, typed: str, message: str, tmp_path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(write(tmp_path / file, content), typed)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500 + len(str(tmp_path))
    assert str(caught.value).startswith(str(tmp_path)) or "is empty" in message


OPTIONS: list[tuple[str, Content, str, str]] = [
    ("a.conll", "0 the DT B-NP\n", "label=4", r"--label 4: .*a.conll has 4 columns; expected -4"),
    ("a.conll", "0 the DT B-NP\n", "label=pos", r"--label column of .*'pos'.*0, 1, 2, 3"),
    ("a.jsonl", [{"tokens": ["a"], "pos": ["X"], "ner": ["O"]}], "", r"columns: pos, ner\..*--lab"),
    ("a.csv", "token,pos,ner\na,X,O\n", "", r"several label columns: pos, ner\..*--label"),
    ("a.csv", "token,pos,ner\na,X,O\n", "label=nerr", r"'nerr'.*Did you mean 'ner'"),
    ("a.csv", "text,topic,stars\na,x,3\n", SENTENCE, r"several label columns: topic, stars\."),
    ("a.csv", "text,topic,stars\na,x,3\n", f"{SENTENCE} label=topik", r"'topik'.*mean 'topic'"),
    ("a.csv", ",text,label\nl,a b,x\n", SENTENCE, r"several label columns: 0, label\."),
    (
        "a.csv",
        "fine .,x,3.8\nbad .,y,1.2\n",
        "",
        r"kind sentence\. .*which column holds the text\?",
    ),
    (
        "a.jsonl",
        [{"text": "a b", "tags": ["x"]}],
        "",
        r"'tags' holds the labels .* --kind multilabel",
    ),
    ("a.csv", f"text,x,y\n{FINE.replace(',', ',p,')}", "", r"a\.csv: no --kind .*columns: x, y"),
    ("a.csv", "text,z\nfine,p\n", f"{SENTENCE} label=y", r"--label column of .*a.csv 'y'"),
    ("a.jsonl", [{"a": ["x"], "b": ["y"]}], "", r"which column holds the words\? a, b\..*--text"),
    ("a.csv", IDS, "label=tag sentences=groop", r"--sentences column of .*Did you mean 'group'"),
    # one text or two
    ("a.tsv", TWO_TEXTS, SENTENCE, r"two text columns, sentence1 and sentence2, but kind sentence"),
    ("a.tsv", TWO_TEXTS, f"{SENTENCE} text=sentence1,sentence2", r"one text column, found 2.*pair"),
    ("a.tsv", TWO_TEXTS, f"{SENTENCE} text=7", r"--text 7: .* has 3 columns"),
    ("a.tsv", TWO_TEXTS, f"{PAIR} text=sentence1", r"takes two text columns.*found 1.*sentence"),
    ("a.tsv", TWO_TEXTS, f"{PAIR} text=sentence1,sentence1", r"one text column, or two different"),
    ("a.tsv", TWO_TEXTS, f"{SCORE} text=0,1,2", r"expected one text column, or two different"),
    ("a.tsv", TWO_TEXTS, f"{TEXT} text=0,1", r"takes one text column, found 2\.$"),
    ("a.tsv", TWO_TEXTS, f"{TEXT} label=label", r"predicts the text's tokens; leave it"),
    ("a.csv", "text,label\na b,x\n", PAIR, r"has only one text column, text, but kind pair"),
    ("a.csv", "a,b,label\nc d,e f,x\n", PAIR, r"which two columns.*a, b\. .*A,B"),
    (
        "a.csv",
        "a,b,score\nc d,e f,1\n",
        SCORE,
        r"which column.*a, b\. .* For two texts .*--text a,b",
    ),
    ("a.csv", "a,b,label\nc d,e f,x\n", SENTENCE, r"which column.*a, b\. .*--text"),
    (
        "a.csv",
        "question,sentence,answer,label\na b,c d,e f,x\n",
        PAIR,
        r"question,sentence; question,answer\. Give --text A,B",
    ),
    # how a file is written
    ("a.csv", "g;3,5\ns;1,0\n", f"{SENTENCE} label=1", r"comma \(2 col.*semicolon \(2 col.*--sep"),
    *(
        ("a.tsv", HAT, f"{SENTENCE} separator={wrong}", r"--separator .*expected one character")
        for wrong in ("x", "::", "'\"'")
    ),
    ("a.jsonl", "{}\n", f"{SENTENCE} separator=;", r"--separator does not apply to .*a.jsonl"),
]


@pytest.mark.parametrize(("file", "content", "typed", "message"), OPTIONS)
def test_options_that_do_not_fit(
    file, content: Content, typed: str, message: str, tmp_path
) -> None:
    with pytest.raises((OptionError, UnknownNameError), match=message):
        read(write(tmp_path / file, content), typed)
