"""Small files of the user's own, each with the options that are typed and what is read of it."""

import json
import logging
import re

import pytest

from tests.tasks.own_files import CONLLU, Content, json_lines, read, shown, task_of, write

NAN = float("nan")
SENTENCE, PAIR, SCORE, TEXT = (
    f"kind={kind}" for kind in ("sentence", "pair", "regression", "language-modelling")
)
LINES = "New\tB-LOC\nYork\tI-LOC\n!\tO\n\nno\tO\n"
NEW_YORK = "New/B-LOC York/I-LOC !/O | no/O"
RECORDS = [{"tokens": ["New", "York", "!"], "ner": ["B-LOC", "I-LOC", "O"]}]
RECORDS += [{"tokens": ["no"], "ner": ["O"]}]
COLUMNS = {name: [row[name] for row in RECORDS] for name in RECORDS[0]}
NAMED = {n: {str(row): cell for row, cell in enumerate(cells)} for n, cells in COLUMNS.items()}
RUNS = [("EU", "calls"), ("No",), ("Paris", "is", "far")]


def tags(*values: object) -> list[object]:
    """One record of as many words as labels."""
    return [{"tokens": list("abcd"[: len(values)]), "tags": list(values)}]


def classes(*values: object) -> list[object]:
    """Three texts with a label each, and a column of nothing."""
    return [{"text": t, "label": v, "notes": []} for t, v in zip("abc", values, strict=True)]


def table(name: str, *ids: str, mark: str = ",") -> str:
    """The words of ``RUNS`` in a table, with an id each."""
    words = [word for run in RUNS for word in run]
    rows = [mark.join([key, word, "O"]) for key, word in zip(ids, words, strict=True)]
    return "\n".join([mark.join([name, "token", "tag"]), *rows])


def conllu(*rows: str) -> str:
    """Rows of word, part of speech and features."""
    cells = (row.split() for row in rows)
    lines = (
        "\t".join([str(n), word, "_", pos, "_", feats, *"_" * 4])
        for n, (word, pos, feats) in enumerate(cells, 1)
    )
    return "\n".join([*lines, ""])


DIVIDED = "tag: EU/O calls/O | No/O | Paris/O is/O far/O"
ONE = DIVIDED.replace(" | ", " ")
IDS = ("7", "7", "8", "9", "9", "9")
SRC = "no: a b + c = n | e + g h = m"
UNICODE = "a\u2028b/X c\x85d/Y | e\x0cf/X"

CASES: list[tuple[str, Content, str, str]] = [
    # the same sentences in every form
    ("a.conll", LINES, "", f"1: {NEW_YORK}"),
    ("a.conll", LINES.replace("\t", " "), "", f"1: {NEW_YORK}"),
    ("a.txt", f"-DOCSTART- O\n\n{LINES}", "", f"1: {NEW_YORK}"),
    ("a.bio", LINES, "", f"1: {NEW_YORK}"),
    ("a.iob2", LINES, "", f"1: {NEW_YORK}"),
    ("a.tsv", LINES, "", f"1: {NEW_YORK}"),
    ("a.tab", f"token\tner\n{LINES}", "", f"ner: {NEW_YORK}"),
    ("a.csv", LINES.replace("\t", ","), "", f"1: {NEW_YORK}"),
    ("a.csv", f"token\tner\n{LINES}".replace("\t", ","), "", f"ner: {NEW_YORK}"),
    ("a.csv", f"token;ner\n{LINES}".replace("\t", ";"), "", f"ner: {NEW_YORK}"),
    (
        "a.csv",
        f"token,ner\n{LINES}".replace("\t", ",").replace("\n\n", "\n,\n").replace("\n", "\r\n"),
        "",
        f"ner: {NEW_YORK}",
    ),
    ("a.jsonl", RECORDS, "", f"ner: {NEW_YORK}"),
    ("a.ndjson", RECORDS, "", f"ner: {NEW_YORK}"),
    ("a.parquet", COLUMNS, "", f"ner: {NEW_YORK}"),
    ("a.json", json.dumps(RECORDS), "", f"ner: {NEW_YORK}"),
    ("a.json", json.dumps(RECORDS, indent=2), "", f"ner: {NEW_YORK}"),
    ("a.json", json_lines(*RECORDS), "", f"ner: {NEW_YORK}"),
    ("a.json", "\n".join(json.dumps(r, indent=1) for r in RECORDS), "", f"ner: {NEW_YORK}"),
    ("a.json", json.dumps(COLUMNS), "", f"ner: {NEW_YORK}"),
    ("a.json", json.dumps(NAMED), "", f"ner: {NEW_YORK}"),
    ("a.json", json.dumps(RECORDS[1]), "", "ner: no/O"),
    ("a.json", '{"text": ["a", "b"], "label": ["x", "y"]}', SENTENCE, "label: a = x | b = y"),
    # columns by name and by position
    ("a.conll", "0 the DT B-NP\n1 cat NN I-NP\n", "text=1 label=2", "2: the/DT cat/NN"),
    ("a.conll", "0 the DT B-NP\n1 cat NN I-NP\n", "text=1 label=-1", "3: the/B-NP cat/I-NP"),
    ("a.conll", "0 the DT B-NP\n1 cat NN I-NP\n", "text=1", "3: the/B-NP cat/I-NP"),
    ("a.jsonl", [{"tokens": ["a"], "pos": ["X"], "ner": ["O"]}], "label=pos", "pos: a/X"),
    ("a.jsonl", [{"tokens": ["a"], "pos": ["X"], "ner": ["O"]}], "label=-1", "ner: a/O"),
    ("a.csv", "token,pos,ner\na,X,O\n", "label=pos", "pos: a/X"),
    ("a.csv", "token,pos,ner\na,X,O\n", "label=-1", "ner: a/O"),
    ("a.jsonl", [{"a": ["x"], "b": ["y"], "n": 3}], "text=b label=a", "a: y/x"),
    ("a.jsonl", [{"Tags": ["O"], "Tokens": ["x"]}], "", "Tags: x/O"),
    ("a.csv", "src,no,one,two\nx,n,a b,c\ny,m,e,g h\n", f"{PAIR} text='one, two' label=no", SRC),
    ("a.csv", "src,no,one,two\nx,n,a b,c\ny,m,e,g h\n", f"{PAIR} text=2,3 label=no", SRC),
    ("a.csv", "src,no,one,two\nx,n,a b,c\n", f"{SENTENCE} text=two label=no", "no: c = n"),
    ("a.csv", "x,no,a b\ny,yes,e f\n", f"{SENTENCE} text=-1 label=1", "1: a b = no | e f = yes"),
    ("a.jsonl", [{"a,b": "x y", "label": "n"}], f"{SENTENCE} text=a,b", "label: x y = n"),
    ("a.csv", "1,g d g\n0,a c\n", f"{SENTENCE} text=1 label=0", "0: g d g = 1 | a c = 0"),
    ("a.csv", "0,1\n1,g d g\n0,a c\n", f"{SENTENCE} text=1 label=0", "0: g d g = 1 | a c = 0"),
    # the usual names
    ("a.csv", "label,Sentence\nx,a b\n", SENTENCE, "label: a b = x"),
    ("a.csv", "review,sentiment,text\nc,x,a b\n", f"{SENTENCE} label=1", "sentiment: a b = x"),
    ("a.tsv", "premise\thypothesis\tlabel\na\tb\tx\n", PAIR, "label: a + b = x"),
    ("a.csv", "idx,sentence1,sentence2,y\n0,a,b,x\n", PAIR, "y: a + b = x"),
    ("a.csv", "text,text_pair,score\na,b,3.8\n", SCORE, "score: a + b = 3.8"),
    ("a.jsonl", [{"text": "a", "y": -1}, {"text": "b", "y": 0.25}], SCORE, "y: a = -1 | b = 0.25"),
    # no labels, and columns that hold none
    ("a.conll", "only\nwords\n", "", ": only words"),
    ("a.tsv", "only\nwords\n", "", ": only words"),
    ("a.jsonl", [{"tokens": ["only", "words"]}], "", ": only words"),
    ("a.csv", "text\nfine\n", SENTENCE, ": fine"),
    ("a.jsonl", [{"text": "fine"}], SENTENCE, ": fine"),
    ("a.jsonl", [{"tokens": ["a"], "ner": ["X"], "relations": []}], "", "ner: a/X"),
    ("a.csv", "text,comment,label\na b,,x\nc d,,y\n", SENTENCE, "label: a b = x | c d = y"),
    ("a.jsonl", [{"text": "a", "label": "", "sentiment": "x"}], SENTENCE, "sentiment: a = x"),
    ("a.csv", "word,comment,tag\nParis,,X\n,,\ncalls,,O\n", "", "tag: Paris/X | calls/O"),
    ("a.csv", "text;label;;\na b;x;;\nc d;y;;\n", SENTENCE, "label: a b = x | c d = y"),
    ("a.jsonl", [{"tokens": ["x"], "tags": ["A"], "sure": [0.25], "box": [[1]]}], "", "tags: x/A"),
    ("a.csv", "token,pos,head,tag\nEU,N,2,O\nme,N,2,O\n", "label=tag", "tag: EU/O me/O"),
    # row numbers are no labels
    ("a.csv", ",token,tag\n0,EU,B-ORG\n1,calls,O\n", "", "tag: EU/B-ORG calls/O"),
    ("a.csv", ",review,no\n7,a b,x\n3,c,y\n", f"{SENTENCE} text=review", "no: a b = x | c = y"),
    ("a.csv", "Unnamed: 0,text,no\n0,a b,x\n", SENTENCE, "no: a b = x"),
    ("a.csv", "Unnamed: 0.1,text,no\n0,a b,x\n", SENTENCE, "no: a b = x"),
    ("a.parquet", {"text": ["a"], "no": ["x"], "__index_level_0__": [4]}, SENTENCE, "no: a = x"),
    ("a.csv", ",text,label\nl,a b,x\nr,c,y\n", f"{SENTENCE} label=0", "0: a b = l | c = r"),
    # classes by name; what stands for none
    ("a.jsonl", tags(1.0, 0.0), "", "tags: a/1 b/0"),
    ("a.jsonl", tags(1, 0), "", "tags: a/1 b/0"),
    ("a.jsonl", tags(True, False), "", "tags: a/true b/false"),
    ("a.jsonl", tags("B-X", None), "", "tags: a/B-X b/"),
    ("a.parquet", {"tokens": [["a", "b"]], "tags": [[1.0, NAN]]}, "", "tags: a/1 b/"),
    *(("a.jsonl", tags(m, m), "", ": a b") for m in (-1, -100, "-1")),
    *(("a.jsonl", tags(7, m, 8), "", "tags: a/7 b/ c/8") for m in (-1, -100, "_", "-", "n/a")),
    *(("a.conll", f"a X\nb {m}\n", "", "1: a/X b/") for m in ("_", "-", "-100", "-1", "null")),
    ("a.tsv", "token\ttags\na\t-100\nb\t-100\n", "", ": a b"),
    ("a.conll", "good +\nbad -\nso _\n", "", "1: good/+ bad/- so/"),
    ("a.jsonl", classes(1, 0, 1), SENTENCE, "label: a = 1 | b = 0 | c = 1"),
    ("a.jsonl", classes(1.0, 0.0, 1.0), SENTENCE, "label: a = 1 | b = 0 | c = 1"),
    ("a.jsonl", classes(True, False, True), SENTENCE, "label: a = true | b = false | c = true"),
    ("a.jsonl", classes(" x", "y ", "x"), SENTENCE, "label: a = x | b = y | c = x"),
    ("a.jsonl", classes(["x"], [" y"], ["x"]), SENTENCE, "label: a = x | b = y | c = x"),
    ("a.jsonl", classes([1], [0], [1]), SENTENCE, "label: a = 1 | b = 0 | c = 1"),
    ("a.jsonl", classes(-1, -1, -1), SENTENCE, ": a | b | c"),
    ("a.jsonl", classes(-1.0, None, -1.0), SENTENCE, ": a | b | c"),
    ("a.jsonl", classes("", "", ""), SENTENCE, ": a | b | c"),
    ("a.jsonl", classes([], [], []), SENTENCE, ": a | b | c"),
    ("a.jsonl", classes(None, None, None), SENTENCE, ": a | b | c"),
    ("a.tsv", "text\tscore\na b\t-1\nc\t0.5\n", SCORE, "score: a b = -1 | c = 0.5"),
    ("a.tsv", "text\tscore\na b\t-1\nc\t-1.0\n", SCORE, ": a b | c"),
    ("a.tsv", "text\tscore\na b\t-100\nc\t-7\n", SCORE, "score: a b = -100 | c = -7"),
    # what surrounds a cell
    *(("a.csv", f"token,{b}tag{b}\na,{b}X\nb,O{b}\n", "", "tag: a/X b/O") for b in " \xa0\u3000"),
    *(("a.conll", f"a\t{b}B-X\nb\tO{b}\n", "", "1: a/B-X b/O") for b in (" ", "\xa0", "\ufeff")),
    ("a.jsonl", [{"\xa0tokens": ["a"], " tag ": [" X\u200b"]}], "", "tag: a/X"),
    ("a.parquet", {"tokens\ufeff": [["a"]], " tag ": [["X "]]}, "", "tag: a/X"),
    ("a.tsv", "text\t\xa0label\nso so\t good\xa0\n", SENTENCE, "label: so so = good"),
    ("a.csv", 'token, tag\nParis, X\n"a, b", "O"\n', "", "tag: Paris/X a, b/O"),
    ("a.tsv", 'say\tO\n"\tO\nhi\tO\n', "", '1: say/O "/O hi/O'),
    ("a.csv", 'say,O\n"""",O\n",",O\n', "", '1: say/O "/O ,/O'),
    ("a.csv", 'text,y\r\n"one\r\n\r\ntwo, ""3""",x\r\n', SENTENCE, 'y: one\n\ntwo, "3" = x'),
    *(("a.csv", f'"{t}"\nmore\n', SENTENCE, f": {t} | more") for t in ("a; b", "x | y", "12 : 3")),
    # what divides lines
    *(
        ("a.conll", f"a\u2028b\tX{end}c\x85d\tY{end}{end}e\x0cf\tX{end}", "", f"1: {UNICODE}")
        for end in ("\n", "\r\n", "\r", "\r\r\n")
    ),
    ("a.jsonl", '{"tokens": ["a\u2028b"]}\r\n{"tokens": ["\x85f"]}\r\n', "", ": a\u2028b | \x85f"),
    ("a.csv", "token,tag\ra\u2028b,X\rc\x85d,Y\r\re\x0cf,X", "", f"tag: {UNICODE}"),
    ("a.conll", "\ufeffa X\n\n\ufeffb Y\n", "", "1: a/X | b/Y"),
    # a hash is a word, and begins hashtags
    ("a.conll", "#\tO\nis\tO\n\n#wnut\tX\nit\tO\n", "", "1: #/O is/O | #wnut/X it/O"),
    ("a.conll", "# #\nis V\n", "", "1: #/# is/V"),
    ("a.conll", "No D\n# SYM\n\n# SYM\none N\n", "", "1: No/D #/SYM | #/SYM one/N"),
    ("a.conll", "#tag\nalone\n\n#\n", "", ": #tag alone | #"),
    ("a.conll", "#\tNumForm=Sign\nis\tMood=Ind\n", "", "1: #/NumForm=Sign is/Mood=Ind"),
    # which sentences a table of words has
    *(
        ("a.csv", table(name, *IDS), "", DIVIDED)
        for name in ("sentence_id", "Sentence #", "sentenceId", "SENT", "sentence idx", "id")
    ),
    ("a.tsv", table("sent_id", *IDS, mark="\t"), "", DIVIDED),
    ("a.csv", table("Sentence #", "s: 1", "", "s: 2", "s: 3", "", ""), "", DIVIDED),
    ("a.csv", table("id", *"012345"), "", ONE),
    ("a.csv", table("group", *IDS), "label=tag sentences=group", DIVIDED),
    ("a.csv", table("group", *IDS), "label=tag sentences=0", DIVIDED),
    ("a.csv", table("group", *IDS), "label=tag sentences=none", ONE),
    ("a.csv", "sent_id,token,tag\n1,a,O\n,,\n1,b,O\n2,c,O\n", "", "tag: a/O | b/O | c/O"),
    ("a.csv", "doc_id,sent_id,token,tag\n1,0,a,O\n2,0,b,O\n2,1,c,O\n", "", "tag: a/O | b/O | c/O"),
    ("a.conll", "7 a O\n7 b O\n8 c O\n", "text=1 sentences=0", "2: a/O b/O | c/O"),
    ("a.csv", "token,tag\n" + "w,O\nv,O\n" * 250, "", f"tag: {' '.join(['w/O v/O'] * 250)}"),
    # CoNLL-U
    ("a.conllu", CONLLU, "", "upos: go/VERB"),
    ("a.txt", f"# sent_id = one\n{CONLLU}", "", "upos: go/VERB"),
    ("a.conllu", CONLLU, "label=4", "xpos: go/VB"),
    ("a.conllu", CONLLU, "label=lemma", "lemma: go/go"),
    ("a.conllu", CONLLU.replace("VERB", "_"), "", "xpos: go/VB"),
    ("a.conllu", "1\tgo\tgo\t_\t_\t_\t_\t_\t_\t_\n", "", "lemma: go/go"),
    ("a.conllu", "1\tgo\tgo\t_\t_\t_\t_\t_\t_\t_\n", "text=lemma", ": go"),
    ("a.conllu", conllu("go V Mood=Imp", "now R _"), "label=feats", "feats: go/Mood=Imp now/_"),
    (
        "a.conllu",
        conllu("cats N Case=Nom|Number=Plur", "now R _", "cat N Number=Sing", "it P Case=Nom"),
        "label=feats:Number",
        "feats:Number: cats/Plur now/ cat/Sing it/",
    ),
    # separators, said or recognised, and an encoding
    ("a.csv", "gut;3,5\nna;1,0\n", f"{SENTENCE} label=1 separator=;", "1: gut = 3,5 | na = 1,0"),
    ("a.csv", "gut;3,5\n", f"{SENTENCE} label=1 separator=Semicolon", "1: gut = 3,5"),
    ("a.csv", "sep=;\ntext;label\na, b;c, d\n", SENTENCE, "label: a, b = c, d"),
    ("a.tsv", "text^label\na^b\n", f"{SENTENCE} separator=^", "label: a = b"),
    ("a.conll", "a^O\nb^O\n", "separator=^", "1: a/O b/O"),
    ("a.txt", "a film\tgood\nbad\tbad\n", f"{SENTENCE} label=1", "1: a film = good | bad = bad"),
    ("a.conll", "“quoted” O\n10\xa0€ O\n".encode("cp1252"), "", "1: “quoted”/O 10\xa0€/O"),
    # running text
    ("a.txt", "\n\n One .\nTwo\u2028 .\n \t\n\n\nThree .", TEXT, ":  One .\nTwo\u2028 . | Three ."),
    ("a.txt", "Four .\r\n\r\nFive .\r\n", TEXT, ": Four . | Five ."),
    ("a.jsonl", [{"text": "One .\n\nTwo .", "label": "x", "n": 3}], TEXT, ": One .\n\nTwo ."),
]


@pytest.mark.parametrize(("file", "content", "typed", "expected"), CASES)
def test_what_is_read(file: str, content: Content, typed: str, expected: str, tmp_path) -> None:
    assert shown(read(write(tmp_path / file, content), typed)) == expected


EN = "Ein sch\u00f6nes St\u00fcck f\u00fcr \u00dcber-M\u00fctter"
SAID: list[tuple[str, Content, str, str, str]] = [
    # columns divided by another mark
    *(
        (
            "a.csv", f'text{mark}label\r\n"gut, aber"{mark}x\r\n', SENTENCE, "label: gut, aber = x",
            f"its columns are separated by {name}s, not commas.",
        )
        for mark, name in ((";", "semicolon"), ("\t", "tab"), ("|", "bar"))
    ),
    # lines that are comments
    (
        "a.conll",
        "# id 7f3a domain=en\nParis _ _ B-LOC\n\n# id 1 y\na _ _ O\n",
        "",
        "3: Paris/B-LOC | a/O",
        r"2 lines that begin a sentence with # .*\(line 1:",
    ),
    (
        "a.conll",
        "# newdoc\nParis PROPN\nx VERB\n\n# second\na VERB\n",
        "",
        "1: Paris/PROPN x/VERB | a/VERB",
        r"2 lines .*\(line 1:",
    ),
    (
        "a.conll",
        "# id 7\tdomain=en\nParis _ _ B-LOC\n\na _ _ O\n",
        "",
        "3: Paris/B-LOC | a/O",
        r"1 lines .*\(line 1:",
    ),
    (
        "a.conll",
        "# one\n# two\n\nParis\tX\n\n# three = 3\na\tO\n",
        "",
        "1: Paris/X | a/O",
        r"3 lines .*\(line 1:",
    ),
    (
        "a.conll",
        "#begin document (x); part 0\nParis X\n\na O\n\n#end document it\n",
        "",
        "1: Paris/X | a/O",
        r"2 lines .*\(line 1:",
    ),
    (
        "a.tsv",
        "# made by hand\ntoken\ttag\nParis\tX\n\n# s2\na\tO\n",
        "",
        "tag: Paris/X | a/O",
        r"2 lines .*\(line 1:",
    ),
    *(
        (
            "a." + form,
            "#\thttp://x [1]\n1\tParis\tX\tO\n2\tx\tO\tO\n\n1\ta\tO\tO\n",
            "text=1 label=2",
            "2: Paris/X x/O | a/O",
            r"1 lines .*\(line 1:",
        )
        for form in ("conll", "tsv")
    ),
    (
        "a.conll",
        "#\tid=1\nParis\tX\n\n#\tid: 2\na\tO\n",
        "",
        "1: Paris/X | a/O",
        r"2 lines .*\(line 1:",
    ),
    (
        "a.tsv",
        "token\ttag\n#\tid=1\nParis\tX\n\n#\tid=2\na\tO\n",
        "",
        "tag: Paris/X | a/O",
        r"2 lines .*\(line 2:",
    ),
    (
        "a.csv",
        "token,tag\n# text = x, y\nParis,X\n\na,O\n",
        "",
        "tag: Paris/X | a/O",
        r"1 lines .*\(line 2:",
    ),
    (
        "a.csv",
        "token,tag\nParis,X\n\n# s2\na,O\n",
        "",
        "tag: Paris/X | a/O",
        r"1 lines .*\(line 4:",
    ),
    # words and texts without a label
    ("a.conll", "a X\nb _\nc Y\n", "", "1: a/X b/ c/Y", "1 words have no label in column '1'"),
    *(
        (
            "a.tsv", f"text\tlabel\na\tx\nb\t{mark}\nc\tx\n", f"{SENTENCE} skip_unlabelled=yes",
            "label: a = x | c = x", "1 of 3 rows have no label in column 'label' and are left out",
        )
        for mark in ("-", "_", "-1.0", "", "null")
    ),
    (
        "a.tsv", "text\tscore\na\t2\nb\t-100\n", f"{SCORE} skip_unlabelled=yes", "score: a = 2",
        "1 of 2 rows",
    ),
    # rows without text
    (
        "a.csv", "text,label\na,x\n ,z\n,y\nb,x\n", f"{SENTENCE} skip_blank=yes",
        "label: a = x | b = x", "2 of 4 rows have no text and are left out",
    ),
    ("a.tsv", "text1\ttext2\na\t\nb\tc\n", "kind=pair skip_blank=yes", ": b + c", "1 of 2 rows"),
    ("a.jsonl", [{"tokens": []}, {"tokens": ["a"]}], "skip_blank=yes", ": a", "1 of 2 rows"),
    # a header that is not known for one
    ("a.csv", "film,verdict\nso good,x\n", f"{SENTENCE} text=film", "verdict: so good = x", ""),
    (
        "a.csv", "film,verdict\nso good,x\n", f"{SENTENCE} text=0 label=1",
        "1: film = verdict | so good = x", r"the first row \(film, verdict\) is read as an example",
    ),
    # encodings
    *(
        (
            "a.tsv",
            f"text\tlabel\n{EN}\tgr\u00f6\u00dfer\n".encode(encoding),
            SENTENCE,
            f"label: {EN} = gr\u00f6\u00dfer",
            f"read as {shown}, not UTF-8. If that is wrong, convert it with iconv" if shown else "",
        )
        for encoding, shown in {
            "cp1252": "cp1252", "latin-1": "cp1252", "utf-16": "utf-16", "utf-32": "utf-32",
            "utf-8-sig": "",
        }.items()
    ),
    *(
        (
            "a." + form, json.dumps({"text": EN}, ensure_ascii=False).encode("cp1252"), SENTENCE,
            f": {EN}", "read as cp1252",
        )
        for form in ("jsonl", "json")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "typed", "expected", "said"), SAID)
def test_what_is_read_and_said(
    file: str, content: Content, typed: str, expected: str, said: str, tmp_path, caplog
) -> None:
    path = write(tmp_path / file, content)
    with caplog.at_level(logging.WARNING):
        assert shown(read(path, typed)) == expected
    told = [message for message in caplog.messages if message.startswith(f"{path}: ")]
    assert len(told) == len(caplog.messages) == bool(said), caplog.messages
    assert re.search(said, caplog.text)


@pytest.mark.parametrize(
    ("file", "content", "kind", "note"),
    [
        (
            "a.csv",
            "text,label\na b,x\nc d,y\n",
            "sentence",
            "texts from 'text', labels from 'label'",
        ),
        ("a.csv", 'review,stars\n"a\nb c",1\nd e,0\n', "sentence", "'review', labels from 'stars'"),
        ("a.jsonl", [{"text": "a", "label": 1.0}], "sentence", "texts from 'text', labels"),
        ("a.jsonl", [{"text": "a", "score": 1.5}], "regression", "texts from 'text', labels"),
        ("a.csv", "text,score\na b,1\nc d,2.5\n", "regression", "texts from 'text', labels"),
        (
            "a.parquet",
            {"premise": ["a"], "hypothesis": ["b"], "gold": ["x"]},
            "pair",
            "texts from 'premise' and 'hypothesis', labels from 'gold'",
        ),
        ("a.jsonl", [{"tokens": ["a"], "tags": ["X"]}], "tagging", "words from 'tokens', labels"),
        ("a.csv", "token,tag\na,X\n", "tagging", "words from 'token', labels from 'tag'"),
        ("a.conllu", CONLLU, "tagging", "words from 'form', labels from 'upos'"),
    ],
)
def test_a_kind_that_was_not_typed_is_found_and_said(
    file: str, content: Content, kind: str, note: str, tmp_path
) -> None:
    task = task_of(write(tmp_path / file, content))
    assert task.kind == kind and f"{file}: read as --kind {kind}: " in task.notes[0]
    assert note in task.notes[0]
    again = task_of(tmp_path / file, f"kind={kind}")
    assert again.slug == task.slug and "--kind" not in again.notes[0]
    assert shown(again.read("train")) == shown(task.read("train"))


def test_what_was_typed_is_not_said(tmp_path) -> None:
    path = write(tmp_path / "a.csv", "text,label,x\na,b,c\n")
    assert task_of(path, f"{SENTENCE} text=text label=1").notes == ()
    (note,) = task_of(path, f"{SENTENCE} label=x").notes
    assert note == f"{path}: texts from 'text'"
