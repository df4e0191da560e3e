"""Tasks, and anybody's data, from the Hub: the real `datasets` code against the local Hub."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from probekit.errors import DataError, HubError, MissingFileError, OptionError, UnknownNameError
from probekit.tasks import folder_name, is_own
from probekit.tasks.corpora.entities import CONLL_NER as NER
from probekit.tasks.corpora.entities import CONLL_POS as POS
from probekit.tasks.corpora.ud import UPOS
from tests.hub_clients import dead_endpoint, redirect
from tests.hub_server import HubServer
from tests.tasks.hub_repos import CLASSES, REVIEWS, reviews, write_card, write_config
from tests.tasks.own_files import get_task, json_lines, shown, words, write, write_parquet

TOKENS = [["EU", "rejects", "German"], ["Peter", "Blackburn"]]
NER_TAGS = [[3, 0, 7], [1, 2]]
NER_NAMES = (("B-ORG", "O", "B-MISC"), ("B-PER", "I-PER"))
POS_TAGS = [[22, 42, 16], [22, 22]]
CHUNK_TAGS = [[11, 21, 11], [11, 12]]


def list_feature(**inner: object) -> dict[str, object]:
    """A list feature as `datasets` writes it into a Parquet file."""
    return {"_type": "List", "feature": inner}


def write_repo(
    folder: Path, columns: Mapping[str, list[object]], names: Mapping[str, tuple[str, ...]]
) -> Path:
    """Write one Parquet file per split, with ClassLabel names where given."""
    folder.mkdir(parents=True)
    features = {column: list_feature(dtype="int64", _type="Value") for column in columns}
    features["tokens"] = list_feature(dtype="string", _type="Value")
    for column, of_column in names.items():
        features[column] = list_feature(_type="ClassLabel", names=list(of_column))
    for split in ("train", "validation", "test"):
        path = folder / f"{split}-00000-of-00001.parquet"
        write_parquet(path, columns, features if names else None)
    return folder


def conll_columns() -> dict[str, list[object]]:
    return {
        "tokens": list(TOKENS), "ner_tags": list(NER_TAGS), "pos_tags": list(POS_TAGS),
        "chunk_tags": list(CHUNK_TAGS),
    }  # fmt: skip


@pytest.fixture
def conll_repo(tmp_path: Path) -> Path:
    return write_repo(tmp_path / "repo", conll_columns(), {"ner_tags": NER, "pos_tags": POS})


def test_conll_loads_with_label_names_and_commit(serve, conll_repo, tmp_path) -> None:
    with serve({"datasets/lhoestq/conll2003": conll_repo}) as hub:
        split = get_task("conll").read("dev", None)
        commit = hub.load("datasets/lhoestq/conll2003").commit
    assert [example.words for example in split.examples] == [tuple(row) for row in TOKENS]
    assert [example.id for example in split.examples] == ["dev-0", "dev-1"]
    assert split.labels["ner"] == NER_NAMES
    assert split.labels["pos"] == (("NNP", "VBZ", "JJ"), ("NNP", "NNP"))
    # No names in the repository: those of the published script.
    assert split.labels["chunk"] == (("B-NP", "B-VP", "B-NP"), ("B-NP", "I-NP"))
    assert split.origin == f"hub:lhoestq/conll2003@{commit} (default)"


def test_a_repository_that_numbers_its_labels_differently(serve, tmp_path) -> None:
    other = tuple(reversed(NER))
    columns = conll_columns() | {"ner_tags": [[5, 8, 1], [7, 6]]}
    repo = write_repo(tmp_path / "repo", columns, {"ner_tags": other})
    with serve({"datasets/lhoestq/conll2003": repo}):
        assert get_task("conll").read("train", None).labels["ner"] == NER_NAMES


def test_a_changed_repository_is_read_again(serve, conll_repo, tmp_path) -> None:
    with serve({"datasets/lhoestq/conll2003": conll_repo}):
        old = get_task("conll").read("train", None)
        changed = conll_columns() | {"tokens": [["Eu", "rejects", "German"], TOKENS[1]]}
        write_repo(tmp_path / "new", changed, {})
        for file in (tmp_path / "new").iterdir():
            (conll_repo / file.name).write_bytes(file.read_bytes())
        new = get_task("conll").read("train", None)
    assert new.examples[0].words == ("Eu", "rejects", "German")
    assert old.origin != new.origin
    assert old.text_fingerprint() != new.text_fingerprint()


def test_the_next_repository_is_tried(serve, conll_repo, tmp_path) -> None:
    script = tmp_path / "script"
    script.mkdir()
    (script / "conll2003.py").write_text("raise SystemExit('must not run')")
    parquet = "datasets/eriktks/conll2003@refs/convert/parquet"
    repos = {"datasets/lhoestq/conll2003": script, parquet: conll_repo}
    with serve(repos):
        split = get_task("conll").read("test", None)
    assert split.labels["ner"] == NER_NAMES
    assert split.origin.startswith("hub:eriktks/conll2003@")


def test_all_failures_in_one_message(serve, conll_repo, tmp_path) -> None:
    repos = {
        "datasets/lhoestq/conll2003": conll_repo,
        "datasets/tomaarsen/conll2003": conll_repo,
        "datasets/eriktks/conll2003": conll_repo,
    }
    faults = {
        "datasets__lhoestq__conll2003": "gated-403",
        "datasets__tomaarsen__conll2003": "error-500",
    }
    started = time.monotonic()
    with serve(repos, **faults), pytest.raises(HubError) as caught:
        get_task("conll").read("train", None)
    message = str(caught.value)
    for part in ("lhoestq/conll2003: ", "gated", "tomaarsen/conll2003: ", "500", "--data DIR"):
        assert part in message
    assert "eriktks/conll2003@refs/convert/parquet: RevisionNotFoundError" in message
    assert "\n" not in message
    assert time.monotonic() - started < 20


def test_an_unreachable_hub_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redirect(monkeypatch, dead_endpoint(), tmp_path)
    started = time.monotonic()
    with pytest.raises(HubError, match="the Hub is unreachable") as caught:
        get_task("conll").read("train", None)
    assert time.monotonic() - started < 5
    assert "tomaarsen" not in str(caught.value)
    assert "--data DIR" in str(caught.value)
    with pytest.raises(HubError, match=r"org/x: no such file .*unreachable.*HF_HUB_OFFLINE=1"):
        get_task("org/x", kind="sentence")


def test_a_dropped_connection_is_survived(
    quick: None, conll_repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "datasets/lhoestq/conll2003"
    with HubServer({name: conll_repo}, drops={f"{name}/train-00000-of-00001.parquet": 1}) as hub:
        hub.redirect(monkeypatch, tmp_path / "home")
        split = get_task("conll").read("train", None)
        assert hub.drops[f"{name}/train-00000-of-00001.parquet"] == 0
    assert split.labels["ner"] == NER_NAMES


def test_wikiann_and_ud_take_their_configuration(serve, tmp_path) -> None:
    ner = {"tokens": list(TOKENS), "ner_tags": [[3, 0, 5], [1, 2]]}
    upos = {
        "tokens": list(TOKENS), "upos": [["PROPN", "VERB", "ADJ"], ["PROPN", "PROPN"]],
        "xpos": [["_", "_", "_"], ["_", "_"]], "sent_id": ["s1", "s2"],
        "deprel": [["nsubj", "root", "xcomp"], ["root", "flat"]],
        "head": [["2", "0", "2"], ["0", "1"]],
    }  # fmt: skip
    repos = {
        "datasets/unimelb-nlp/wikiann": tmp_path / "wikiann",
        "datasets/universal-dependencies/universal_dependencies": tmp_path / "ud",
    }
    write_repo(tmp_path / "wikiann" / "de", ner, {})
    write_repo(tmp_path / "ud" / "en_ewt", upos, {})
    for folder, config in (("wikiann", "de"), ("ud", "en_ewt")):
        card = f"---\nconfigs:\n- config_name: {config}\n  data_dir: {config}\n---\n"
        (tmp_path / folder / "README.md").write_text(card)
    with serve(repos):
        german = get_task("wikiann/de").read("train", None)
        treebank = get_task("ud/en_ewt").read("dev", None)
        with pytest.raises(HubError, match=r"wikiann \(fr\): ValueError: BuilderConfig 'fr'"):
            get_task("wikiann/fr").read("train", None)
    assert german.labels["ner"] == (("B-ORG", "O", "B-LOC"), ("B-PER", "I-PER"))
    assert german.origin.endswith(" (de)")
    upos, deprel = (
        (("PROPN", "VERB", "ADJ"), ("PROPN", "PROPN")),
        (
            ("nsubj", "root", "xcomp"),
            ("root", "flat"),
        ),
    )
    heads = (("2", "0", "2"), ("0", "1"))
    assert treebank.labels == {"upos": upos, "deprel": deprel, "head": heads}
    assert [example.id for example in treebank.examples] == ["s1", "s2"]
    assert {"PROPN", "VERB", "ADJ"} < set(UPOS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ner_tags": [[3, 0, 99], [1, 2]]}, "99 in column 'ner_tags' is not a label"),
        ({"tokens": None, "words": TOKENS}, "has no column tokens"),
    ],
)
def test_columns_that_do_not_fit(
    serve, change: dict[str, list[object] | None], message: str, tmp_path
) -> None:
    columns = {name: rows for name, rows in (conll_columns() | change).items() if rows is not None}
    repo = write_repo(tmp_path / "repo", columns, {})
    with serve({"datasets/lhoestq/conll2003": repo}), pytest.raises(HubError, match=message):
        get_task("conll").read("train", None)


def test_unlabelled_split_has_no_column(serve, tmp_path) -> None:
    columns = conll_columns() | {"ner_tags": [[-1, -1, -1], [-1, -1]]}
    repo = write_repo(tmp_path / "repo", columns, {})
    with serve({"datasets/lhoestq/conll2003": repo}):
        split = get_task("conll").read("test", None)
    assert set(split.labels) == {"pos", "chunk"}


READ = """
from probekit.tasks import TextOptions, get_task
split = get_task("conll").read("train", None)
own = get_task("org/reviews/short", TextOptions(kind="sentence", text="review"))
said = f"{split.origin} {split.text_fingerprint()} {own.splits} {own.read('dev').origin}"
"""
OFFLINE = f"""
import os, time
os.environ["HF_HUB_OFFLINE"] = "1"
from probekit.errors import HubError
{READ}
print(said)
started = time.monotonic()
try:
    get_task("wnut17").read("train", None)
except HubError as error:
    print(time.monotonic() - started, error)
"""


def test_offline_uses_the_copy_downloaded_before_or_fails_at_once(
    serve, conll_repo: Path, tmp_path: Path
) -> None:
    repos = {"lhoestq/conll2003": conll_repo, "org/reviews": reviews(tmp_path / "reviews")}
    online: dict[str, str] = {}
    with serve({f"datasets/{name}": folder for name, folder in repos.items()}) as hub:
        exec(READ, online)
        asked = len(hub.requests)
        offline = hub.run_python(OFFLINE, tmp_path / "home")
        assert len(hub.requests) == asked
    assert "hub:lhoestq/conll2003@" in online["said"]
    assert "('train', 'dev') hub:org/reviews@" in online["said"]
    said, failed = offline.stdout.splitlines() or [offline.stderr, ""]
    assert said == online["said"]
    seconds, _, message = failed.partition(" ")
    assert float(seconds) < 10 and "flaitenberger/wnut_17: " in message
    assert "offline" in message.lower()


def test_a_data_set_by_its_name(serve, tmp_path) -> None:
    folder = tmp_path / "repo"
    write(folder / "train.jsonl", json_lines(*({"text": t, "stars": 3} for t in ("a b", "c"))))
    write(folder / "test.jsonl", json_lines({"text": "d", "stars": 1}))
    with serve({"datasets/org/stars": folder}) as hub:
        task = get_task("org/stars", kind="regression")
        assert (task.splits, task.columns) == (("train", "test"), ("stars",))
        assert shown(task.read("train")) == "stars: a b = 3 | c = 3"
        assert (
            task.read("test").origin
            == f"hub:org/stars@{hub.load('datasets/org/stars').commit} (default)"
        )
        assert task.slug == folder_name("org/stars") == "org-stars"
        assert not is_own(task)
        fresh = write(tmp_path / "new" / "test.csv", "text,stars\nd,2\n").parent
        assert shown(task.read("test", fresh)) == "stars: d = 2"
        for option in ("separator", "sentences"):
            with pytest.raises(OptionError, match=f"--{option} does not apply to org/stars"):
                get_task("org/stars", **{option: ";"})


def test_words_of_a_data_set(serve, tmp_path) -> None:
    row = {"tokens": ["EU", "calls"], "ner_tags": ["B-ORG", "O"], "pos": ["N", "V"]}
    folder = write(tmp_path / "repo" / "all.jsonl", json_lines(row)).parent
    with serve({"datasets/org/words": folder}):
        task = get_task("org/words", label="ner_tags")
        assert (task.splits, task.metrics) == (("train",), {"ner_tags": "span-f1"})
        assert words(task.read("train")) == [("EU", "calls")]
        with pytest.raises(OptionError, match=r"several label columns: ner_tags, pos"):
            get_task("org/words", kind="tagging")


def test_configurations(serve, tmp_path) -> None:
    repo = reviews(tmp_path / "repo")
    with serve({"datasets/org/reviews": repo}) as hub:
        commit = hub.load("datasets/org/reviews").commit
        for name in ("org/reviews/long", f"org/reviews/long@{commit}"):
            task = get_task(name, kind="sentence", text="review")
            assert task.splits == ("train", "dev")
            assert shown(task.read("dev")) == "label: a fine film = good | a dull film = bad"
            assert task.read("dev").origin == f"hub:org/reviews@{commit} (long)"
        with pytest.raises(
            OptionError, match=r"several configurations: .*org/reviews/(long|short)"
        ):
            get_task("org/reviews", kind="sentence")
        with pytest.raises(UnknownNameError, match=r"'lang'\. Did you mean 'long'"):
            get_task("org/reviews/lang", kind="sentence")


def test_a_data_set_that_is_not_there(serve, tmp_path) -> None:
    folder = write(tmp_path / "repo" / "a.jsonl", json_lines({"text": "a"})).parent
    repos = {"datasets/org/locked": folder}
    with serve(repos, datasets__org__locked="gated-403"):
        with pytest.raises(MissingFileError, match=r"org/none: no such file .* on the Hub"):
            get_task("org/none", kind="sentence")
        with pytest.raises(HubError, match=r"could not load org/locked .*"):
            get_task("org/locked", kind="sentence")
        with pytest.raises(MissingFileError, match=r"data/train.csv: no such file or folder"):
            get_task("data/train.csv", kind="sentence")


def test_splits_of_other_names(serve, tmp_path) -> None:
    folder = tmp_path / "repo"
    write_config(folder, "one", {"north": REVIEWS}, CLASSES)
    write_config(folder, "two", {"north": REVIEWS, "south": REVIEWS}, CLASSES)
    write_card(folder, {"one": ("north",), "two": ("north", "south")})
    with serve({"datasets/org/parts": folder}):
        assert get_task("org/parts/one", kind="sentence", text="review").splits == ("train",)
        with pytest.raises(DataError, match=r"no split is called train.*it has north, south"):
            get_task("org/parts/two", kind="sentence", text="review")
