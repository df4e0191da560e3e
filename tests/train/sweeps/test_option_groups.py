"""No option is left out, of the key, the shared steps or the source, whatever comes after it.

Every test goes through the fields of a group, so that a new option is tried as well. Where one
cannot be tried by `OTHER`, whoever adds it says there what else it may be.
"""

from dataclasses import fields, replace

import pytest

from probekit.base.registry import flag
from probekit.base.selection import PROTOCOL_DEFAULTS
from probekit.features import Location, open_features
from probekit.page.rerun_commands import rerun_commands
from probekit.results.summaries.grouping import options_of
from probekit.train.option_groups import ALWAYS_WRITTEN, Descent, Steps
from probekit.train.steps import steps_of
from probekit.train.sweeps import run_views
from probekit.train.sweeps.outputs import described
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run_options import GROUPS, Data, Origin, Sample
from probekit.train.sweeps.run_views import open_once, open_splits, opened_by
from probekit.train.sweeps.specs import ResolvedOptions, TrainSpec
from probekit.train.sweeps.worker import make_streams
from tests.planted import MODEL, TASK
from tests.results.samples import make_record
from tests.train.grouped import built, member
from tests.train.sweeps.samples import spec

OTHER = {
    "model": "other", "task": "conll2003", "label": "pos", "control": 3, "fit_on": "dev",
    "group": "document", "drop_duplicates": True, "label_noise": 0.1, "positives": 0.3,
    "token_head": "max", "point": "z", "head": "mean", "decoder": "mlp", "layers": "1,2",
    "depth": 2, "normalize": "standardize", "pooling": "cls", "method": "full",
    "batch_tokens": 64,
    "shots": 4, "fraction": 0.5, "hold_out": 0.25, "seed": 5, "epochs": 3, "batch_size": 5,
    "evals": 2, "lr": 0.5, "rates": (("mixing", 0.5),), "weight_decay": 0.5, "optimizer": "adam",
    "schedule": "constant", "warmup": 0.5, "fit": "adam", "select": "dev", "l2": 0.5,
    "start": "solved", "fusion_from": "saved", "freeze_fusion": True, "init_from": "saved",
    "as_published": True, "rate_from": "searched", "trial": True, "left_out": 2,
}  # fmt: skip
"""Another value of every option than its default."""

BESIDE = {
    "freeze_fusion": {"fusion_from": "saved"}, "l2": {"fit": "lbfgs"},
    "batch_tokens": {"method": "full"}, "start": {"method": "full"},
}  # fmt: skip
"""What an option needs beside it."""

NAMES = {group: [field.name for field in fields(group)] for group in GROUPS}
EVERY = [name for names in NAMES.values() for name in names]


def key(**options):
    about = {"task": "t", "layers": (1,), "metric": "f1", "entries": {}, "labels_fingerprint": "l"}
    return ResolvedOptions(spec=spec(**options), numerics=1, **about).key


def test_a_spec_is_its_groups():
    assert set(EVERY) == {field.name for field in fields(TrainSpec)} == set(OTHER)
    assert len(EVERY) == len(set(EVERY))
    assert TrainSpec.__mro__[1 : 1 + len(GROUPS)] == GROUPS


@pytest.mark.parametrize("name", EVERY)
def test_every_option_is_in_the_key_save_where_it_is_said_why_not(name):
    beside = BESIDE.get(name, {})
    same = key(**beside) == key(**beside | {name: OTHER[name]})
    # in the entries' keys, the content of a start, and the numbers of the layers
    elsewhere = ("model", "task", "fusion_from", "start", "layers")
    assert same == (name in (*elsewhere, *NAMES[Origin]))


def test_options_that_came_later_are_written_only_if_set():
    later = set(EVERY) - ALWAYS_WRITTEN - set(NAMES[Origin])
    assert len(ALWAYS_WRITTEN) == 29  # a later option has no place there
    for name in later:
        (field,) = (field for field in fields(TrainSpec) if field.name == name)
        for usual in (field.default, field.metadata.get("unset", field.default)):
            assert key() == key(**{name: usual})
            assert name not in spec(**{name: usual}).to_json()
        beside = BESIDE.get(name, {})
        assert spec(**beside | {name: OTHER[name]}).to_json()[name] == OTHER[name]


@pytest.mark.parametrize("name", NAMES[Data])
def test_every_option_of_data_decides_what_is_opened(name, monkeypatch):
    one, other = spec(), spec(**{name: OTHER[name]})
    assert opened_by(one) != opened_by(other)
    opened = []
    monkeypatch.setattr(run_views, "open_features", lambda **given: opened.append(given))
    for each in (one, other, one):
        open_once("a sweep", opened_by(each), Location())
    open_splits(other, Location())
    assert [given[name] for given in opened] == [
        getattr(each, name) for each in (one, other, other)
    ]
    open_once.cache_clear()


@pytest.fixture(scope="module")
def splits(words):
    return open_features(MODEL, TASK, "ner", words)


@pytest.fixture
def run(splits):
    return resolve(spec(epochs=1, lr=0.25, select="dev"), splits)


def changed(run, **options):
    return replace(run, options=replace(run.options, spec=replace(run.spec, **options)))


@pytest.mark.parametrize("name", [*NAMES[Data], "hold_out", "pooling"])
def test_every_option_of_data_parts_groups(name, run):
    assert run.data_key != changed(run, **{name: OTHER[name]}).data_key


@pytest.mark.parametrize("name", [*NAMES[Sample], *NAMES[Steps], "select"])
def test_every_option_of_sample_and_steps_parts_streams(name, run, splits):
    other = changed(run, **{name: "hold-out:0.1" if name == "select" else OTHER[name]})
    assert run.stream_key != other.stream_key
    streams, _ = make_streams([run, changed(run), other], splits)
    assert [len(stream.members) for stream in streams] == [2, 1]
    assert [stream.steps for stream in streams] == [run.spec.of(Steps), other.spec.of(Steps)]


@pytest.mark.parametrize("name", NAMES[Descent])
def test_probes_with_another_descent_never_step_together(name, run, splits):
    """Alike they do: a linear probe takes no notice of rates of groups that it has not."""
    usual = vars(run.spec.of(Descent))
    descents = usual, usual, usual | {name: OTHER[name]}
    members = [built(splits, member(layers=(3,), **descent)) for descent in descents]
    assert len(steps_of(members[:2])) == 1
    assert len(steps_of(members)) == 2


@pytest.mark.parametrize("name", NAMES[Descent])
def test_every_option_of_descent_reaches_its_member(name, splits):
    options = {"head": "p32", name: OTHER[name]}
    descent = resolve(spec(**options), splits).member.descent
    assert getattr(descent, name) == OTHER[name]


UNTOLD = (*("model", "task", "fusion_from", "init_from"), *NAMES[Origin])
"""What a record says of the entry, of a saved head and of the purpose of a run."""

BUILT = ("head", "decoder", "layers", "select", "start", "seed")
"""What tells records apart by what was built for the run."""

TYPED = {
    "rates": "--lr", "seed": "--seeds", "depth": "probekit depth",
    "freeze_fusion": "--start frozen-fusion:", **dict.fromkeys(PROTOCOL_DEFAULTS, "--protocol"),
}  # fmt: skip
"""How an option is typed, where not by its own name."""

SOLVING = {**dict.fromkeys([*NAMES[Descent], *NAMES[Steps]]), "rates": (), "fit": "lbfgs"}


@pytest.mark.parametrize("name", [name for name in EVERY if name not in UNTOLD])
def test_every_option_tells_records_apart_and_is_typed_again(name, run, splits):
    beside = SOLVING if name == "l2" else BESIDE.get(name, {})
    changes = SOLVING if name == "fit" else {name: "cv:3" if name == "select" else OTHER[name]}
    one, other = (
        make_record(**described(changed(run, **beside, **options), splits))
        for options in ({}, changes)
    )
    assert name in BUILT or options_of(one) != options_of(other), "they differ in no option"
    assert other.spec[name] == changes[name] != one.spec.get(name)
    saved = {"init": "wikiann/en ner 1a2b3c4d"} if "fusion_from" in beside else {}
    (line,) = rerun_commands([replace(other, **saved)], {})
    file, _, command = line.rpartition(" && ")
    assert TYPED.get(name, flag(name)) in command
    assert (f"{name} = " in file) == (name in PROTOCOL_DEFAULTS)


@pytest.mark.parametrize("name", [*NAMES[Descent], *NAMES[Steps]])
def test_a_probe_is_the_same_alone_and_beside_others(name, swept):
    steps = {"fit": "adam", "select": "dev", "epochs": 1, "evals": 1, "lr": 0.25}
    own = spec(**steps | {"head": "p32" if name == "rates" else "last", name: OTHER[name]})
    before = [replace(own, seed=7), replace(own, lr=0.01)]
    after = [replace(own, head="mean", rates=()), replace(own, layers="1")]
    (alone,) = swept([own], "alone", device="cpu")
    beside = {r.key: r for r in swept([*before, own, *after], "beside", device="cpu")}
    assert len(beside) == 5
    assert alone.scores == pytest.approx(beside[alone.key].scores, rel=1e-4)
