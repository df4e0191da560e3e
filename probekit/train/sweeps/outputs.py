"""What runs leave behind: records, heads and predictions."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from probekit.base.fingerprint import digest_file
from probekit.base.kinds import KINDS
from probekit.base.layers import ReadPoint
from probekit.base.machine import native_bfloat16
from probekit.base.registry import parse
from probekit.base.selection import HELD_OUT
from probekit.errors import OptionError
from probekit.features import FeatureView, Splits, settled_array
from probekit.features.sentence_groups import group_sizes
from probekit.metrics.contract import padded
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS
from probekit.results import Record
from probekit.results.predictions import About, Content, Predicted, write_predicted
from probekit.results.record import BY_MEAN
from probekit.tasks.task import slugify
from probekit.train.member import load_under
from probekit.train.option_groups import DEFAULT_EVALS
from probekit.train.result import FitResult
from probekit.train.saved.folder import (
    HeadFeatures,
    SavedHead,
    check_replaceable,
    save_head,
    saved_key,
)
from probekit.train.scoring import ALL_KEPT, RowProbabilities
from probekit.train.sweeps.resolve import Run, typed_config
from probekit.train.sweeps.run_options import Origin
from probekit.train.sweeps.run_views import count_duplicates, sample, scored_views
from probekit.train.sweeps.specs import TrainSpec
from probekit.version import __version__

if TYPE_CHECKING:
    from probekit.train.live.live_model import LiveModel

LOSS = "dev/loss"
"""What a record's scores call the loss on dev: nats of a row, or of a regression squared error."""


def write_predictions(
    path: Path,
    predictions: Mapping[str, np.ndarray],
    views: Mapping[str, FeatureView],
    *,
    probabilities: Mapping[str, RowProbabilities] | None = None,
    key: str,
    metric: str,
    labels_fingerprint: str,
) -> None:
    """Write the predictions of some splits.

    Args:
        path: the Parquet file; folders are created.
        predictions: by split, for each row: its class number; its value, where targets are
            values; its loss, where targets are classes too many to name; or a score per label.
        views: the rows that were predicted, by split.
        probabilities: what the probabilities of these rows say, by split; none of numbers.
        key: key of the run's record.
        metric: name of the metric that scores the run.
        labels_fingerprint: as in the record.

    Raises:
        StorageError: the file cannot be written.
    """
    said = probabilities or {}
    splits = {
        split: _predicted(views[split], rows, said.get(split))
        for split, rows in predictions.items()
    }
    by_class = any(split.content in ("classes", "sets") for split in splits.values())
    about = About(
        key=key,
        metric=metric,
        labels_fingerprint=labels_fingerprint,
        classes=next(iter(views.values())).labels.names if by_class else (),
    )
    write_predicted(path, about, splits)


def _predicted(
    view: FeatureView, rows: np.ndarray, probabilities: RowProbabilities | None
) -> Predicted:
    content: Content
    gold: np.ndarray | None
    odds = None if probabilities is None else probabilities.odds
    if view.of_sets:
        content, gold, names = "sets", view.targets == 1, view.all_names
        odds = rows.astype(np.float32) if rows.shape[1] <= ALL_KEPT else None
        rows = padded(rows, *gold.shape) > 0
    elif np.issubdtype(rows.dtype, np.integer):
        content, gold, names = "classes", view.targets, view.all_names
    elif np.issubdtype(view.targets.dtype, np.floating):
        content, gold, names = "values", view.targets, ()
    else:
        content, gold, names = "losses", None if probabilities is None else view.targets, ()
    ids, offsets, texts, positions = view.ids, view.offsets, view.texts, view.positions
    if content == "losses":
        # A text's readings under other masks depend on one another, so a bootstrap must draw them
        # together: they are joined to its first passage. The passages a#0, a#0, a#1, b#0 with
        # offsets 0, 2, 3, 7, 9, where texts are read twice, have the names a, a, a, b: the first
        # ones are 0 and 3, and the offsets of a and b are 0, 7, 9. Where texts are read once, a#0
        # is a name of its own: a#0, a#1, b#0 with 0, 3, 7, 9.
        names_of = view.text_names
        first = np.flatnonzero(np.append(True, names_of[1:] != names_of[:-1]))
        ids = tuple(names_of[first].tolist())
        offsets = np.append(view.offsets[first], view.offsets[-1])
        texts = [texts[passage] for passage in first]
        positions = positions[first]
    said, shared = probabilities, view.resampled
    return Predicted(
        ids=ids,
        offsets=offsets,
        content=content,
        predicted=rows,
        gold=gold,
        names=names,
        texts=tuple(texts),
        groups=() if shared is None else tuple(shared.names[text] for text in positions),
        grouped_by="" if shared is None else shared.column,
        probabilities=None if said is None else said.probabilities,
        kept=None if said is None else said.kept,
        row_scores=None if said is None else said.scores,
        odds=odds,
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What the runs of a plan leave behind besides their scores.

    Attributes:
        save: folder for the trained heads, as in `sweep`.
        predictions: folder for the predictions, a Parquet file of each run.
        predictions_of_all: whether a run that was recorded without them is trained again.
        ablate: find the loss when the rows of each layer are their mean, of heads with several.
        losses: have the loss on dev among the scores, which records of earlier versions have not.
        heads: folder of each saved head by record key, see `of_runs`.
    """

    save: Path | None = None
    predictions: Path | None = None
    predictions_of_all: bool = True
    ablate: bool = False
    losses: bool = False
    heads: Mapping[str, Path] = field(default_factory=dict)

    def of_runs(self, runs: Sequence[Run]) -> "Outputs":
        """Return the same with a folder for each head: that for all of them, if there is one run.

        Raises:
            OptionError: the head of another run would be overwritten, or one cannot be saved.
            StorageError: a head cannot be saved there.
        """
        if self.save is None:
            return self
        points = [ReadPoint.parse(run.spec.point) for run in runs]
        if several := next((point for point in points if point.joined), None):
            raise OptionError(
                f"--point {several}: heads over several points cannot be saved. Leave --save out."
            )
        heads = dict[str, Path]()
        for run in runs:
            key, spec = run.options.key, run.spec
            depth = "" if spec.depth is None else f"-depth{spec.depth}"
            shots = "" if spec.shots is None else f"-shots{spec.shots}"
            name = f"{slugify(spec.head)}-{spec.label}{depth}{shots}-seed{spec.seed}-{key[:8]}"
            heads[key] = self.save / name if len(runs) > 1 else self.save
            check_replaceable(
                heads[key],
                key=key,
                task=run.options.task,
                label=spec.label,
                head=run.member.head.name,
                tunes=spec.tunes,
            )
        return replace(self, heads=heads)

    def predictions_of(self, key: str) -> Path | None:
        """Return the file of a run's predictions; None where none are written."""
        return None if self.predictions is None else self.predictions / f"{key[:16]}.parquet"

    def write(
        self, run: Run, result: FitResult, splits: Splits, live: "LiveModel | None" = None
    ) -> None:
        """Write the saved head and the predictions of a run, where they were asked for.

        Args:
            run: what was trained.
            result: of it.
            splits: its data.
            live: the model that it trained, or that made its rows.

        Raises:
            StorageError: one of them cannot be written.
        """
        key = run.options.key
        if (folder := self.heads.get(key)) is not None:
            state = {n: t for n, t in result.state.items() if not n.startswith("backbone.")}
            trained = None
            if live is not None and live.tuned is not None and result.n_backbone_params:
                load_under("backbone.", result.state, live.tuned)
                trained = live.trained
            save_head(folder, _described(run, result, splits), state, trained)
        if (file := self.predictions_of(key)) is not None:
            write_predictions(
                file,
                result.predictions,
                scored_views(run.spec, splits),
                probabilities=result.probabilities,
                key=key,
                metric=run.options.metric,
                labels_fingerprint=run.options.labels_fingerprint,
            )

    def are_there(self, key: str, known: Mapping[str, Record]) -> bool:
        """Say whether a run's record is among the known ones, and all else that was asked for."""
        if (record := known.get(key)) is None:
            return False
        # a killed run may have left the file, and not the record that names it
        file = self.predictions_of(key) if self.predictions_of_all else None
        predicted = file is None or (record.predictions is not None and file.is_file())
        # The folder may hold the head of another run.
        saved = key not in self.heads or saved_key(self.heads[key]) == key
        ablated = not self.ablate or len(record.layers) == 1 or record.ablated == BY_MEAN
        return predicted and saved and ablated and (not self.losses or LOSS in record.scores)


def model_found(info: Mapping[str, Any], spec: TrainSpec) -> dict[str, Any]:
    """Return what is known of a run's model, with the path that was typed where that is meant.

    An entry has the path of its extraction, which may have been relative to another folder. A model
    that is trained is the one that was typed: of two with the same states one may drop out more.
    """
    if info.get("source", "hub") == "hub":
        return dict(info)
    gone = not Path(info.get("name", "")).expanduser().exists()
    typed = spec.tunes and typed_config(spec.model) is not None
    there = typed or (gone and Path(spec.model).expanduser().exists())
    return {**info, "name": spec.model} if there else dict(info)


def _described(run: Run, result: FitResult, splits: Splits) -> SavedHead:
    """Return what is known of a trained head besides its tensors."""
    options, manifest, token_head = run.options, splits.manifest, splits.token_head
    # what the head reads: the texts of a regression are single ones or pairs
    kind, paired = KINDS[manifest.kind], splits.entries["train"].examples.has("text_pair")
    text_kind = kind.name if len(kind.texts) == 1 else "pair" if paired else "sentence"
    return SavedHead(
        head=result.modules["head"],
        decoder=result.modules["decoder"],
        normalization=result.modules["normalization"],
        layers=result.layers,
        n_params=result.n_params,
        model=model_found(manifest.model_info, run.spec),
        features=HeadFeatures.of(
            {
                "dim": splits.dim,
                "n_blocks": manifest.n_blocks,
                "kind": splits.kind,
                "text_kind": text_kind,
                "array": settled_array(splits.kind, options.spec.pooling, token_head, splits.point),
                "attention_head": splits.point.attention_head,
                "pooling": manifest.pooling,
                # what a model that learns makes is rounded to nothing
                "dtype": "float32" if options.spec.tunes else manifest.dtype,
                "compute_dtype": manifest.compute_dtype,
                "max_length": manifest.request.get("max_length"),
                "overlong": manifest.request.get("overlong", "stride"),
                "only": manifest.only,
                "chat_template": manifest.request.get("chat_template"),
                "token_head": token_head.to_json() if token_head and token_head.fixed else None,
                "entry": manifest.key,
            }
        ),
        task=splits.task.name,
        label=splits.column,
        labels=splits.label_map.names,
        metric=splits.metric,
        eval_score=result.eval_score,
        test_score=result.test_score,
        options=options.to_json(),
        init=run.init,
        backbone=run.spec.tuning.packaging.name
        if run.spec.tuning is not None and result.n_backbone_params
        else None,
        read=manifest.read or {},
        plugins={
            kind: origin for kind, origin in options.plugins.items() if kind in result.modules
        },
        key=options.key,
    )


_AS_ASKED = (
    *("method", "depth", "normalize", "pooling", "protocol", "shots", "fraction", "seed", "l2"),
    *("epochs", "lr", "rate_from", "trial", "left_out", "batch_size"),
    "batch_tokens",
)
"""What a record says as the settled spec does."""

_SAID = {
    *_AS_ASKED,
    *("label", "control"),  # Record.label
    # Record.protocol
    *("fit_on", "hold_out", "group", "drop_duplicates", "label_noise", "positives"),
    *("optimizer", "weight_decay", "schedule", "warmup"),  # Record.optimizer
    *("head", "decoder", "layers", "start", "freeze_fusion", "fit", "select", "evals", "rates"),
}
"""Options that have a field or a text of a record; any other one is said among its settings."""

_OUTCOME = {field.name for field in fields(Record)} & {field.name for field in fields(FitResult)}
"""What a record says as the result of training does."""

_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "transformers")


def make_record(
    run: Run, result: FitResult, splits: Splits, outputs: Outputs, device: str
) -> Record:
    """Return the record of a finished run."""
    predictions = outputs.predictions_of(run.options.key)
    select = run.member.select
    # the folds that a draw allowed, where these are fewer than the default
    folds = {"folds": select.folds} if select is not None and select.default else {}
    outcome = {name: getattr(result, name) for name in _OUTCOME} | {
        "diagnosis": {**result.diagnosis, **folds},
        "predictions": None if predictions is None else str(predictions),
        "predictions_digest": None if predictions is None else digest_file(predictions),
    }
    return Record(
        **described(run, splits) | outcome,
        environment=describe_environment(device),
        version=__version__,
        key=run.options.key,
    )


@lru_cache
def describe_environment(device: str) -> dict[str, Any]:
    """Return what computed a run, which is no part of its key: device, threads, dtypes, versions.

    Args:
        device: what computes, such as ``cpu`` or ``cuda:0``.
    """
    of_cuda = device.startswith("cuda")
    return {
        "device": torch.cuda.get_device_name(device) if of_cuda else device,
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "large_heads": "bfloat16" if native_bfloat16(device) else "float32",
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }


def described(run: Run, splits: Splits) -> dict[str, Any]:
    """Return what a record says of a run before it has begun, by field."""
    spec, options, member = run.spec, run.options, run.member
    manifest = splits.manifest
    seen = {
        "examples": run.n_sentences,
        "of_examples": len(splits.drawable),
        "of_rows": splits.n_rows("train"),
        "blocks": manifest.n_blocks,
        "dtype": manifest.dtype,
        "format": manifest.backend,
    }
    if manifest.limit is not None:
        seen["limit"] = manifest.limit
    drawn = sample(spec, splits)
    if (groups := splits.example_groups("train")) is not None:
        seen |= group_sizes(groups[drawn])
    # the options that make a run, as far as they are no folder of this machine
    apart = {"model", "task", "fusion_from", "init_from"} | {item.name for item in fields(Origin)}
    said = spec.to_json().items()
    stated = {name: value for name, value in said if name not in apart and value not in (None, ())}
    unsaid = {n: v for n, v in stated.items() if n in spec.changed and n not in _SAID}
    if (select := member.select) is not None:
        # of what is held out the protocol names the groups
        by = f" by {spec.group}" if spec.group and select.kind != HELD_OUT else ""
    control = "" if spec.control is None else f" (control {spec.control})"
    return {name: getattr(spec, name) for name in _AS_ASKED} | {
        "model": manifest.model,
        "task": splits.task.name,
        "label": f"{spec.label}{control}",
        "labels_fingerprint": options.labels_fingerprint,
        "entry": manifest.key,
        "texts": {split: splits.entries[split].manifest.request["text"] for split in splits.labels},
        "seen": seen,
        "duplicates": count_duplicates(spec, splits, drawn),
        "head": member.head.name,
        "decoder": member.decoder.name,
        "options": {
            **_changed_settings(spec),
            **{f"model.{name}": rate for name, rate in options.dropout.items()},
            **unsaid,
        },
        "spec": stated,
        "plugins": options.plugins,
        "layers": options.layers,
        "init": run.init,
        "freeze": spec.freeze_fusion,
        "fitter": spec.fit,
        "select": None if select is None else f"{select.asked}{by}",
        "evals": None if spec.evals == DEFAULT_EVALS else spec.evals,
        "rates": dict(spec.rates),
        "optimizer": spec.optimizer_text
        if spec.fit == "adam"
        else {"lbfgs": "L-BFGS"}.get(spec.fit, spec.fit),
        "metric": options.metric,
    }


def _changed_settings(spec: TrainSpec) -> dict[str, Any]:
    """Return the settings of head and decoder that are not the default, as ``decoder.hidden``."""
    assert spec.decoder is not None
    registries: dict[str, Mapping[str, Any]] = {"head": HEADS, "decoder": DECODERS}
    changed: dict[str, Any] = {}
    for kind, registry in registries.items():
        plugin = parse(kind, getattr(spec, kind), registry)
        default = registry[plugin.name]().to_json()
        settings = plugin.to_json().items()
        changed |= {f"{kind}.{name}": value for name, value in settings if default[name] != value}
    return changed
