"""Single corpora: the shipped one, treebanks, WikiText, and sae-probes."""

from collections import defaultdict
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probekit.errors import DataError, HubError, MissingFileError, OptionError, UnknownNameError
from probekit.tasks import Split, variants_of
from tests.hub_clients import dead_endpoint, redirect
from tests.tasks.hub_repos import write_card
from tests.tasks.own_files import CONLLU, get_task, write

CORPUS = Path(__file__).resolve().parents[2] / "probekit" / "tasks" / "corpora" / "demo"
SIZES = {"train": 450, "dev": 150}
TYPES = ("PER", "LOC", "ORG", "MISC")


def names(split: Split) -> list[tuple[str, str]]:
    """Whole names and their types, in order."""
    found: list[tuple[str, str]] = []
    for example, tags in zip(split.examples, split.labels["ner"], strict=True):
        for word, tag in zip(example.words, tags, strict=True):
            if tag.startswith("I-"):
                found[-1] = (f"{found[-1][0]} {word}", found[-1][1])
            elif tag != "O":
                found.append((word, tag.removeprefix("B-")))
    return found


@pytest.fixture(scope="module")
def corpus() -> dict[str, Split]:
    return {name: get_task("demo-ner").read(name) for name in SIZES}


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_file_format(corpus: dict[str, Split], split: str, size: int) -> None:
    raw = (CORPUS / f"{split}.conll").read_bytes()
    assert b"\r" not in raw and raw.endswith(b"\n")
    assert not raw.startswith(b"\n") and b"\n\n\n" not in raw and not raw.endswith(b"\n\n")
    for line in filter(None, raw.decode("utf-8").split("\n")):
        word, tag = line.split("\t")
        assert word and tag and not any(map(str.isspace, word + tag)), line
    assert len(corpus[split].examples) == size
    assert corpus[split].origin == f"{split}.conll in the package"
    own = get_task("demo-ner").read(split, CORPUS)
    assert own.text_fingerprint() == corpus[split].text_fingerprint()
    assert own.origin == f"{split}.conll in {CORPUS}"


def test_tags_are_valid_bio_over_four_types(corpus: dict[str, Split]) -> None:
    rows = [tags for split in corpus.values() for tags in split.labels["ner"]]
    assert {*chain(*rows)} == {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in TYPES)}
    for tags in rows:
        for before, tag in pairwise(("O", *tags)):
            assert not tag.startswith("I-") or before[1:] == tag[1:], tags


def test_names_need_context_and_dev_has_known_and_unseen_ones(corpus: dict[str, Split]) -> None:
    texts = [{one.words for one in split.examples} for split in corpus.values()]
    assert not texts[0] & texts[1]
    train, dev = (set(names(split)) for split in corpus.values())
    kinds = defaultdict(set)
    for name, kind in train | dev:
        kinds[name].add(kind)
    assert sum(len(found) > 1 for found in kinds.values()) >= 30
    known = {name for name, _ in train}
    assert {kind for _, kind in dev & train} == set(TYPES)
    assert {kind for name, kind in dev if name not in known} == set(TYPES)


TREEBANKS = ("de_gsd", "en_ewt", "en_gum", "fr_gsd")


def folder_of(path: Path) -> Path:
    for name in TREEBANKS:
        write(path / f"{name}-ud-train.conllu", CONLLU)
    return path


def test_treebanks_of_a_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert variants_of("ud", folder) == [f"ud/{name}" for name in TREEBANKS]
    with pytest.raises(MissingFileError, match="no such folder"):
        variants_of("ud", folder / "none")
    with pytest.raises(MissingFileError, match=r"NAME-ud-dev.conllu"):
        variants_of("ud", write(folder / "other" / "a.txt", "").parent)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ewt", "ud/en_ewt"), ("EWT", "ud/en_ewt"), ("gsd", "ud/de_gsd or ud/fr_gsd"),
        ("en", "ud/en_ewt or ud/en_gum"), ("en_ewtt", "ud/en_ewt.*"), ("English-EWT", "ud/en_ewt"),
    ],
)  # fmt: skip
def test_a_name_that_is_nearly_right(tmp_path: Path, name: str, near: str) -> None:
    message = rf"no treebank '{name}' in .*Did you mean {near}\? `probekit tasks ud --data .*the 4"
    with pytest.raises(UnknownNameError, match=message):
        get_task(f"ud/{name}").read("train", folder_of(tmp_path))


def test_a_split_that_is_missing_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no file for split 'dev' of ud/en_ewt"):
        get_task("ud/en_ewt").read("dev", folder_of(tmp_path))


def test_treebanks_of_the_hub(serve, tmp_path) -> None:
    card = ["---", "configs:"]
    for name in TREEBANKS:
        write(tmp_path / "ud" / name / "train.jsonl", '{"tokens": ["a"], "upos": ["X"]}\n')
        card += [f"- config_name: {name}", f"  data_dir: {name}"]
    write(tmp_path / "ud" / "README.md", "\n".join([*card, "---", ""]))
    repos = {"datasets/universal-dependencies/universal_dependencies": tmp_path / "ud"}
    with serve(repos):
        assert variants_of("ud") == [f"ud/{name}" for name in TREEBANKS]
        with pytest.raises(UnknownNameError, match=r"on the Hub\. Did you mean ud/en_ewt\?"):
            get_task("ud/ewt").read("train", None)


def test_a_hub_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redirect(monkeypatch, dead_endpoint(), tmp_path)
    with pytest.raises(HubError, match=r"cannot list .*unreachable"):
        variants_of("ud")
    with pytest.raises(HubError, match="could not load split 'train' of ud/ewt"):
        get_task("ud/ewt").read("train", None)


def test_other_families() -> None:
    assert "glue/rte" in variants_of("glue")
    for name, message in (("conll", "a task without"), ("wikiann", "expected wikiann/LANG")):
        with pytest.raises(OptionError, match=message):
            variants_of(name)
    with pytest.raises(UnknownNameError, match="Did you mean 'glue'"):
        variants_of("glu")


LINES = [
    " ", " = Robert Boulter = ", " ", " He acted . ", " ", " = = Career = = ", " ", " NR ",
    " = 1 henry and capacitance C = ", " = National record ", " ", " ", " = A = B = ", " ",
    " Text \u2028 <unk> . ", " ",
]  # fmt: skip
FIRST = "\n".join(LINES[1:10])
SECOND = "\n".join(LINES[12:15])


def texts(folder: Path, split: str = "dev") -> list[str | None]:
    return [example.text for example in get_task("wikitext2").read(split, folder).examples]


@pytest.mark.parametrize("end", ["\n", "", "\n\n \n"])
def test_an_example_is_an_article(end: str, tmp_path: Path) -> None:
    write(tmp_path / "wiki.valid.tokens", "\n".join(LINES) + end)
    assert texts(tmp_path) == [FIRST, SECOND]
    split = get_task("wikitext2").read("dev", tmp_path)
    assert split.labels == {}
    assert [example.id for example in split.examples] == ["dev-0", "dev-1"]
    assert split.documents == ("2: Robert Boulter", "13: A = B")


def test_the_task() -> None:
    task = get_task("wikitext2", kind="language-modelling", label="token")
    assert (task.kind, task.metrics) == ("language-modelling", {"token": "perplexity"})
    assert task.columns == ("token",)
    assert task.splits == ("train", "dev", "test")


def test_the_two_forms_are_never_mixed(tmp_path: Path) -> None:
    write(tmp_path / "wiki.valid.tokens", "\n".join(LINES))
    write(tmp_path / "raw" / "wiki.test.raw", "\n".join(LINES))
    with pytest.raises(MissingFileError, match=r"'test' of wikitext2.*tried: wiki.test.tokens, "):
        texts(tmp_path, "test")
    assert texts(tmp_path / "raw", "test") == [FIRST, SECOND]
    (tmp_path / "wiki.valid.tokens").unlink()
    assert texts(tmp_path, "test") == [FIRST, SECOND]
    with pytest.raises(MissingFileError, match=r"tried: wiki.train.raw, "):
        texts(tmp_path, "train")
    with pytest.raises(MissingFileError, match=r"tried: wiki.train.tokens, wiki.train.raw, "):
        texts(write(tmp_path / "none" / "x", "").parent, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n some text\n", r"wiki.valid.tokens, line 2: text before the first title"),
        (" stray \n \n = A = \n \n b", r"line 1: text before the first title"),
        (" \n", "is empty"),
        ("", "is empty"),
    ],
)
def test_malformed(content: str, message: str, tmp_path: Path) -> None:
    write(tmp_path / "wiki.valid.tokens", content)
    with pytest.raises(DataError, match=message):
        texts(tmp_path)


def test_the_hub_gives_the_articles_of_the_raw_files(serve, tmp_path) -> None:
    # As the published script wrote them: one row per line, an empty one for a blank line.
    rows = [f"{line}\n" if line.strip() else "" for line in LINES]
    folder = tmp_path / "repo" / "wikitext-2-raw-v1"
    folder.mkdir(parents=True)
    splits = ["train", "validation", "test"]
    for split in splits:
        pq.write_table(pa.table({"text": rows}), folder / f"{split}-00000-of-00001.parquet")
    write_card(tmp_path / "repo", {"wikitext-2-raw-v1": splits})
    write(tmp_path / "data" / "wiki.valid.raw", "\n".join(LINES) + "\n")
    with serve({"datasets/Salesforce/wikitext": tmp_path / "repo"}):
        online = get_task("wikitext2").read("dev", None)
    offline = get_task("wikitext2").read("dev", tmp_path / "data")
    assert online.text_fingerprint() == offline.text_fingerprint()
    assert online.origin.startswith("hub:Salesforce/wikitext@")


MASTER = "probing_datasets_MASTER.csv.zst"


def write_table(path, table):
    with pa.output_stream(path, compression="zstd") as stream:
        stream.write(pandas.DataFrame(table).to_csv(index=False).encode())


@pytest.fixture
def folder(tmp_path):
    """The list of tasks above a folder with two tables, one of them with a blank in its name."""
    names = ["1_x.csv", "2_a b.csv", "3_many.csv"]
    kinds = ["Binary Classification", "Binary Classification", "Multiclass Classification"]
    saved = [f"cleaned_data/{name}" for name in names]
    write_table(tmp_path / MASTER, {"Data type": kinds, "Dataset save name": saved})
    data = tmp_path / "cleaned_data"
    data.mkdir()
    targets = {"1_x": np.arange(400) % 2, "2_a b": np.array(["no", "yes"] * 1200)}
    for name, target in targets.items():
        prompts = [f"text {n}" for n in range(len(target))]
        write_table(data / f"{name}.csv.zst", {"prompt": prompts, "target": target})
    return data


def by_hand(target, n_train, n_test):
    """The rows that numpy draws with the seed 42: of the second class first, and then all mixed."""
    random = np.random.RandomState(42)
    parts, left = [], [np.flatnonzero(target == value) for value in np.unique(target)[::-1]]
    for size in (n_train, n_test):
        drawn = [
            random.choice(rows, size=half, replace=False)
            for rows, half in zip(left, (-(-size // 2), size // 2), strict=True)
        ]
        left = [np.setdiff1d(rows, taken) for rows, taken in zip(left, drawn, strict=True)]
        parts.append(np.concatenate(drawn))
    return [random.permutation(rows) for rows in parts]


@pytest.mark.parametrize(
    ("tag", "target", "n_train"),
    [("1_x", np.arange(400) % 2, 300), ("2_a_b", np.array(["no", "yes"] * 1200), 1024)],
)
def test_rows_are_those_of_the_seed(folder, tag, target, n_train):
    task = get_task(f"sae-probes/{tag}")
    train, test = by_hand(target, n_train, len(target) - n_train - 1)
    n_dev = min(n_train // 5, 100)
    for split, rows in {"train": train[:-n_dev], "dev": train[-n_dev:], "test": test}.items():
        read = task.read(split, folder)
        assert [example.id for example in read.examples] == [f"row-{row}" for row in rows]
        assert [example.text for example in read.examples] == [f"text {row}" for row in rows]
        assert [label for (label,) in read.labels["target"]] == list(map(str, target[rows]))


def test_binary_tasks_are_listed(folder):
    expected = ["sae-probes/1_x", "sae-probes/2_a_b"]
    assert variants_of("sae-probes", folder) == variants_of("sae-probes", folder.parent) == expected
    with pytest.raises(MissingFileError, match="Give --data DIR: the package sae-probes"):
        variants_of("sae-probes", None)


def test_texts_of_another_source_are_the_test(folder):
    (folder.parent / "OOD data").mkdir()
    other = {"prompt": ["far a", "far b", "far c"], "target": ["yes", "1", "yes"]}
    write_table(folder.parent / "OOD data/2_a_b_OOD.csv.zst", other)
    assert variants_of("sae-probes-ood", folder) == ["sae-probes-ood/2_a_b"]
    task = get_task("sae-probes-ood/2_a_b")
    test = task.read("test", folder)
    assert [example.text for example in test.examples] == ["far a", "far b", "far c"]
    assert [label for (label,) in test.labels["target"]] == ["yes", "no", "yes"]  # by their order
    same = get_task("sae-probes/2_a_b").read("train", folder)
    assert task.read("train", folder).examples == same.examples


def test_what_is_no_such_table_is_told(folder):
    with pytest.raises(OptionError, match=r"needs --data DIR.*the package sae-probes"):
        get_task("sae-probes/1_x").read("train")
    for table, message in (
        ({"prompt": ["a"] * 300, "target": [0, 1, 2] * 100}, "has 3 classes"),
        ({"prompt": ["a"] * 300, "target": [0] * 290 + [1] * 10}, "too few texts of a class"),
        ({"text": ["a"], "target": [0]}, "no column 'prompt'"),
    ):
        write_table(folder / "1_x.csv.zst", table)
        with pytest.raises(DataError, match=message):
            get_task("sae-probes/1_x").read("train", folder)
    (folder / "1_x.csv.zst").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a table of sae-probes"):
        get_task("sae-probes/1_x").read("train", folder)
