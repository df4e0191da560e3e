"""``--config``: files of options."""

import pytest

from tests.cli.console import done, refused, run
from tests.planted import plant, plant_all

TRAIN = ("train", "planted", "conll", "--json")
QUICK = ("--epochs", "1")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A cache of two models and two decimals of noise (do not change it)."""
    root = tmp_path_factory.mktemp("planted")
    plant_all(root)
    for split in ("train", "dev", "test"):
        plant(root, split, model="other", seed=4)
    return root


@pytest.fixture
def cache(planted, here):
    (here / "cache").symlink_to(planted)
    return here / "cache"


def write(here, text, name="run.toml"):
    (here / name).write_text(text, "utf-8")
    return here / name


def keys(outcome):
    return [row["key"] for row in outcome.rows]


def test_the_command_line_goes_before_the_file(cache, here):
    file = write(
        here,
        '\ufeffmodel = "planted"\ntask = "conll"\nhead = "last"\nshots = 4\nseeds = [7]\nl2 = 1\n'
        "predictions = true\nout = 'x.jsonl'",
    )
    (row,) = done("train", "--config", file, "--json").rows
    assert (row["head"], row["seed"], row["shots"], row["l2"]) == ("last", 7, 4, 1.0)
    assert row["predictions"] is not None
    words = ("other", "--head", "mean", "--no-predictions", "--seeds", "2", "--out", "y.jsonl")
    found = done("train", *words, "--config", file, "--json").rows
    assert [(row["model"], row["head"], row["seed"]) for row in found] == [
        ("other", "mean", 0), ("other", "mean", 1),
    ]  # fmt: skip
    assert found[0]["predictions"] is None and (here / "y.jsonl").exists()


def test_one_file_serves_several_commands(bert, corpus, here):
    file = write(
        here,
        f'model = "{bert}"\ntask = "{corpus}"\ncache = "store"\n\n'
        '[extract]\ncompute_dtype = "float32"\nsplit = ["train", "dev"]\n\n'
        '[sweep]\nhead = ["last", "mean"]\nfraction = [0.5, 1]\nl2 = 1\n'
        "[cache-verify]\nrows = 3\n",
    )
    done("extract", "--config", file)
    rows = done("sweep", "--config", file, "--json").rows
    found = [(row["head"], row["fraction"]) for row in rows]
    assert found == [("last", 0.5), ("last", 1), ("mean", 0.5), ("mean", 1)]
    message = refused("cache", "ls", "--config", file)
    assert (
        "`probekit cache ls` has no option model: put it below [extract] or [train] or [sweep] or "
        "[depth]." in message
    )


def test_arguments_and_flags_come_from_a_file(records, here):
    file = write(here, f'runs = ["{records}"]\nwhere = ["head=p32", "shots=8"]\nstyle = "csv"\n')
    words = ("--where", "head=p32", "--where", "shots=8", "--style", "csv")
    assert done("table", "--config", file).out == done("table", records, *words).out
    file = write(here, f'runs = "{records}"\nall = true\n[train]\nhead = "last"')
    words = ("--all", records)
    assert done("compare", "--config", file).out == done("compare", *words).out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hed = "last"', "unknown key 'hed' for `probekit train`. Did you mean 'head'? See"),
        ("trust_plugins = true", "unknown key 'trust_plugins' for `probekit train`. See"),
        ("every = 2", "`probekit train` has no option every: put it below [extract] or [depth]."),
        ("predictions = 1", "predictions must be true or false; found 1."),
        ("head = true", "head must be text, a number or an array of these; found True."),
        ("[trian]\nhead = 'last'", "no command has the section [trian]. Did you mean 'train'?"),
        ("[cache-lst]\nsort = 'name'", "no command has the section [cache-lst]. Did you mean"),
        ("[sweep]\nhed = 'last'", "unknown key 'hed' for `probekit sweep`."),
        ("[extract]\ntrust-remote-code = true", "trust_remote_code is never read from a file"),
        ("[[run]]\nhead = 'last'", "`probekit train` has no option run: put it below [merge]"),
        ("head = last", "not TOML (Invalid value"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(here, text, message):
    file = write(here, text)
    found = refused("train", "--config", file)
    assert message in found
    assert str(file) in found


@pytest.mark.parametrize("text", ["workers = [1, 2]", "hold_out = 'half'"])
def test_a_value_of_another_type_is_told_with_the_file(here, text):
    outcome = run("train", "m", "conll", "--config", write(here, text))
    option = text.partition(" =")[0].replace("_", "-")
    assert outcome.code == 2 and f"Invalid value for '--{option}'" in outcome.err
    assert f"(what is not typed is from {here / 'run.toml'})" in outcome.err


def test_a_file_that_is_not_there_and_one_that_cannot_be_read(here):
    assert refused("train", "--config", "gone.toml") == "--config gone.toml: no such file."
    assert "cannot be read" in refused("train", "--config", here)
    (here / "bad.toml").write_bytes(b"head = '\xff'")
    assert "not TOML" in refused("train", "--config", "bad.toml")
