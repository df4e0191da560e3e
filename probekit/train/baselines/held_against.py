"""Run the baselines of some heads, and put their scores beside those of the heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from probekit.base.kinds import KINDS
from probekit.base.registry import PathName
from probekit.errors import DataError, EntryNotFoundError, OptionError
from probekit.features import Location, Splits
from probekit.results import Record
from probekit.store.entry import list_entries
from probekit.store.files import typed_path
from probekit.store.find import extraction_of
from probekit.store.manifest import read_manifest
from probekit.train.baselines.baseline_records import (
    CODE_SCORES,
    Ledger,
    code_records,
    guess_records,
)
from probekit.train.sweeps.resolve import resolve
from probekit.train.sweeps.run import sweep
from probekit.train.sweeps.run_views import open_splits, saved_classes
from probekit.train.sweeps.specs import TrainSpec


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Heads with what they are held against.

    Attributes:
        heads: the heads' records, with what the baselines say of each among the ``scores``:
            ``accuracy``, ``control/accuracy`` (of the same head on control labels),
            ``selectivity`` (their difference; all three on test, or on dev without a test split),
            ``bits per label`` and ``compression`` of the online code.
        guesses: records of the baselines without features, ``majority`` and ``memorised``, one per
            drawn sample.
        random: records of the same heads on randomly initialised backbones of the same shape.
        notes: what could not be had, and how to have it.
    """

    heads: Sequence[Record]
    guesses: Sequence[Record]
    random: Sequence[Record]
    notes: Sequence[str]


def run_baselines(
    plan: TrainSpec | Sequence[TrainSpec],
    *,
    out: PathName,
    location: Location,
    workers: int = 1,
    memory: int | None = None,
    device: str = "auto",
    save: PathName | None = None,
    predictions: bool | Literal["new"] | None = None,
    ablate: str | None = None,
    track: str | None = None,
    progress: bool = False,
    trust_remote_code: bool = False,
) -> Baselines:
    """Train the heads of a plan and everything that they should be compared with.

    All records are appended to ``out``; what is there is not trained again.

    Args:
        plan: the runs, or one: one model, task and label column, on its real labels.
        out: the records file.
        location: where entries and labels lie.
        workers: worker processes.
        memory: bytes to use.
        device: what computes.
        save: folder for the trained heads of the plan, as in `sweep`.
        predictions: write the predictions of the plan's runs beside ``out``, as in `sweep`.
        ablate: leave layers out of the plan's runs, as in `sweep`; of no baseline.
        track: a tracker that is shown the plan's runs, as in `sweep`; no baselines.
        progress: show progress on stderr.
        trust_remote_code: run code that lies with the model, as in `sweep`.

    Raises:
        OptionError: an option cannot be used, or `check_plan` refuses the plan.
        MissingFileError: no saved head lies where a run should go on from one.
        RecordError: it is damaged.
        EntryNotFoundError: the cache does not hold the features.
        DataError: labels are missing, or do not fit.
        StorageError: records, predictions or heads cannot be written.
        EngineError: a worker process died.
    """
    plan = [plan] if isinstance(plan, TrainSpec) else plan
    check_plan(plan)
    train = partial(
        sweep,
        out=out,
        workers=workers,
        memory=memory,
        device=device,
        progress=progress,
        trust_remote_code=trust_remote_code,
    )
    splits = open_splits(plan[0], location)
    # Two specs may be one run: a learning rate that was given, and the published one.
    runs = list({run.options.key: run for run in (resolve(spec, splits) for spec in plan)}.values())
    plan = [run.spec for run in runs]
    ways: dict[str, Any] = {"predictions": predictions, "ablate": ablate, "track": track}
    heads = train(plan, location=location, save=save, **ways)
    ledger = Ledger(Path(out))
    none: Sequence[Record | None] = [None] * len(runs)
    controls, codes = none, none
    kind, notes = KINDS[splits.kind], []
    if kind.per == "word":
        controls = train([replace(spec, control=spec.seed) for spec in plan], location=location)
    else:
        notes.append(
            f"no control task: it needs labels of words, and these are of kind {kind.name}."
        )
    if kind.targets == "classes":
        codes = code_records(runs, splits, ledger, device=device, memory=memory)
    else:
        notes.append(f"no code length: it needs classes, and these labels are of kind {kind.name}.")
    random, missing = random_records(plan, splits, location, train)
    return Baselines(
        heads=[_held_against(*each) for each in zip(heads, controls, codes, strict=True)],
        guesses=guess_records(runs, splits, ledger),
        random=random,
        notes=[*notes, *missing],
    )


def random_records(
    plan: Sequence[TrainSpec],
    splits: Splits,
    location: Location,
    train: Callable[..., list[Record]],
) -> tuple[list[Record], list[str]]:
    """Train the plan on every random version of the backbone; say what could not be trained.

    Args:
        plan: the runs.
        splits: features of the model itself.
        location: the cache.
        train: `sweep` with all else that it is told.

    Returns:
        The records, and notes.
    """
    records: list[Record] = []
    notes: list[str] = []
    name = splits.manifest.model
    models = random_models(splits, location)
    for model, entry in models.items():
        there = replace(location, entry=entry, identity=None)
        try:
            records += train([replace(spec, model=model) for spec in plan], location=there)
        except (DataError, EntryNotFoundError, OptionError) as error:
            notes.append(f"no scores of {model}: {error}")
    if not models:
        limit, root = splits.manifest.limit, typed_path(location.cache)
        wanted = location.wanted(plan[0].model, splits.task, plan[0].label)
        of_model = wanted.of_model(list_entries(root))
        more = ["--random-init", "0", *([] if limit is None else ["--limit", str(limit)])]
        notes.append(
            "no randomly initialised backbone: extract one with the options of your own extraction "
            f"(in Python options=probekit.ExtractOptions(random_init=0), name='{name}-random0'). "
            f"Type: {extraction_of(root, wanted, of_model, more=more)}"
        )
    return records, notes


def check_plan(plan: Sequence[TrainSpec]) -> None:
    """Refuse runs that cannot be held against one set of baselines.

    Raises:
        OptionError: there are several label columns, or control labels, which are a baseline
            themselves, or runs that train nothing, or whose rate is to be searched,
            or that go on from heads with other labels.
        MissingFileError: no saved head lies where a run should go on from one.
        RecordError: it is damaged.
    """
    labels = dict.fromkeys(spec.label for spec in plan)
    if len(labels) > 1:
        raise OptionError(
            f"--baselines works on one label column, and {len(labels)} were given "
            f"({', '.join(map(str, labels))}). Run each by itself: --label {plan[0].label}."
        )
    if any(spec.control is not None for spec in plan):
        raise OptionError(
            "--control and --baselines were both given; the baselines include a control task for "
            "every seed, so leave --control out."
        )
    if any(spec.searched for spec in plan):
        raise OptionError(
            "--baselines uses the learning rate of your heads, so it cannot be searched at the "
            "same time. Search it first without --baselines, then give the result with --lr."
        )
    if any(spec.untrained for spec in plan):
        raise OptionError(
            "--baselines trains on the same sentences as your heads, and a saved head that is "
            "only scored (--shots 0, --fraction 0) has none. Leave --baselines out."
        )
    if len({saved_classes(spec) for spec in plan}) > 1:
        raise OptionError(
            "--baselines needs heads with the same labels. These start from saved heads with "
            "different labels, or only some of them start from a saved head. Run each by itself."
        )


def random_models(splits: Splits, location: Location) -> dict[str, Path]:
    """Return randomly initialised versions of a model, each with an entry of the same text.

    Args:
        splits: features of the model itself.
        location: the cache.
    """
    wanted = splits.manifest.request
    entries: dict[str, Path] = {}
    for folder in list_entries(typed_path(location.cache)):
        if folder.complete and folder.split == splits.fit_on:
            asked = read_manifest(folder.path).request
            if asked["text"] == wanted["text"] and _is_random(asked["model"], wanted["model"]):
                alike = {**asked, "model": None} == {**wanted, "model": None}
                if alike or folder.model not in entries:
                    entries[folder.model] = folder.path
    return dict(sorted(entries.items()))


def _is_random(identity: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """Say whether a model is another with random weights; that one may itself be such a model."""
    # of bert: bert-random0, but neither bert with an adapter nor bert-large-random0, whose
    # configuration differs; of bert-random0: bert-random1; of a run's bert-lora: bert-random0
    drawn = dict.fromkeys(("weights", "adapter", "random_init", "method", "tuned"))
    same = {**identity, **drawn} == {**model, **drawn}
    untrained = identity["random_init"] is not None and identity.get("method") is None
    return same and untrained and identity != model


def _held_against(record: Record, control: Record | None, code: Record | None) -> Record:
    """Return a head's record with the scores of its baselines among its own.

    It counts as diverged where one of them did.
    """
    scores = dict(record.scores)
    split = "test" if record.test_score is not None else "dev"
    if control is not None:
        real, random = record.scores[f"{split}/accuracy"], control.scores[f"{split}/accuracy"]
        scores |= {"accuracy": real, "control/accuracy": random, "selectivity": real - random}
    if code is not None:
        scores |= {name: code.scores[name] for name in CODE_SCORES}
    diverged = any(held is not None and held.diverged for held in (record, control, code))
    return replace(record, scores=scores, diverged=diverged)
