"""Settle the open choices of a spec against the data."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from probekit.base.fingerprint import PluginOrigin, digest
from probekit.base.kinds import ARRAYS, KINDS, TOKENS, stream_array
from probekit.base.layers import NO_BLOCK, STREAM
from probekit.base.registry import parse
from probekit.base.selection import RANDOM, SOLVED
from probekit.errors import DataError, OptionError
from probekit.features import Splits, choose_array, missing_array, settled_array
from probekit.features.made_rows import read_array
from probekit.features.sentence_groups import say_sizes
from probekit.metrics import METRICS
from probekit.probe.decoders import DECODERS, check_decodes
from probekit.probe.decoders.linear import Linear
from probekit.probe.fitters import FITTERS, solves
from probekit.probe.heads import HEADS
from probekit.probe.heads.contract import BackboneFacts, HeadSpec
from probekit.probe.heads.over_tokens import OverTokens, check_reads_rows
from probekit.probe.model_parts import KeptBackbone
from probekit.probe.normalization import NORMALIZATIONS
from probekit.probe.token_heads import TOKEN_HEADS
from probekit.results.summaries.wording import layer_text, layers_text
from probekit.store.json_types import read_object
from probekit.train.member import MemberSpec, count_parameters
from probekit.train.option_groups import Descent, Steps
from probekit.train.sampling import check_two_classes, class_counts
from probekit.train.solving.solved_stream import SOLVER_STEPS
from probekit.train.sweeps.fitting import settle_fit, solver_of
from probekit.train.sweeps.run_options import Data, Origin, Sample, Start, Tuning
from probekit.train.sweeps.run_views import (
    Probed,
    SavedStart,
    count_units,
    fitted_and_judging,
    open_start,
    sample,
    train_view,
)
from probekit.train.sweeps.specs import ResolvedOptions, TrainSpec, choose_layers


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a sweep, settled, with what planning needs to know of it.

    Attributes:
        options: what the record's key hashes.
        member: the head, ready to train.
        n_sentences: drawn sentences that are fitted on.
        n_params: estimate of the trained values, head and decoder together.
        linear: whether a linear layer is all that is trained.
        n_values: rows x layers x width that are fitted on.
        init: what the saved head that it starts from was trained on; ``solved`` of a solved one.
        classes: label names that its decoder knows.
        solving: the run from the cache that finds where it starts, if it starts from a solved head.
    """

    options: ResolvedOptions
    member: MemberSpec = field(compare=False)
    n_sentences: int
    n_params: int
    linear: bool = False
    n_values: int = 0
    init: str | None = None
    classes: tuple[str, ...] = ()
    solving: "Run | None" = field(default=None, compare=False)

    @property
    def spec(self) -> TrainSpec:
        """The options, filled in."""
        return self.options.spec

    @property
    def same_for_all_seeds(self) -> bool:
        """Whether no seed differs from another: a solver on all of train draws nothing."""
        spec = self.spec
        drawn = spec.shots or spec.fraction not in (None, 1)
        return solves(spec.fit) and not drawn

    @property
    def steps(self) -> int:
        """Training steps; of a solver, a fixed number that stands for all its work."""
        spec = self.spec
        if spec.epochs is None or spec.batch_size is None:
            return SOLVER_STEPS
        solving = 0 if self.solving is None else self.solving.steps
        return solving + spec.epochs * math.ceil(self.n_sentences / spec.batch_size)

    @property
    def fit_key(self) -> Hashable:
        """What runs share that are one and the same fit, as its seed decides nothing."""
        return replace(self.spec, seed=0) if self.same_for_all_seeds else id(self)

    @property
    def data_key(self) -> Hashable:
        """What runs must share to be in one group: the data, and what a decoder predicts."""
        spec = self.spec
        solved = solves(spec.fit)  # a solver wants the memory for its own rows
        own_model = id(self) if spec.tunes else None  # which one run alone may train
        live = spec.method, own_model
        return spec.of(Data), spec.hold_out, spec.pooling, self.classes, solved, live

    @property
    def stream_key(self) -> Hashable:
        """What runs must share to take the same batches."""
        spec = self.spec
        drawn = replace(spec.of(Sample), seed=0) if self.same_for_all_seeds else spec.of(Sample)
        return drawn, spec.of(Steps), spec.fit, spec.select


def resolve(
    spec: TrainSpec, splits: Splits, drawn: Int64[np.ndarray, " drawn"] | None = None
) -> Run:
    """Fill in a spec's open choices.

    Args:
        spec: as the user gave it.
        splits: the features.
        drawn: the train sentences that it sees; None draws them.

    Raises:
        OptionError: a layer or depth that the model does not have, more shots than train holds, or
            shots of labels without classes.
        UnknownNameError: no decoder has this name.
        DataError: there is no dev split to score, and no hold-out was asked for.
    """
    kind = KINDS[splits.kind]
    _check_labels(spec, splits)
    manifest, entry = splits.manifest, splits.entries["train"]
    config = KeptBackbone(entry.backbone).config
    head, token_head = _bound_head(spec, splits, config), splits.token_head
    layers = choose_layers(spec, head, manifest.n_blocks)
    drawn = sample(spec, splits) if drawn is None else drawn
    named = spec.decoder or default_decoder(head, splits, as_published=spec.as_published)
    decoder = parse("decoder", named, DECODERS)
    check_decodes(decoder.name, splits.kind)
    probed = Probed(splits=splits, head=head, decoder=decoder, layers=layers, drawn=drawn)
    settled = settle_fit(spec, probed)
    # Of an encoder's text the papers read the first token, and so does BERT's pooler: BERT on SST-2
    # reads the mean of all tokens, under a protocol or with a pooler cls; GPT-2 the last token; on
    # CoNLL both read words, and there is nothing to choose.
    published = spec.as_published or decoder.name == "pooler"
    by_first = published and not manifest.causal and kind.per == "text"
    if token_head is None:
        asked = spec.pooling or ("cls" if by_first else None)
        array = choose_array(entry, splits.kind, asked, splits.point)
        pooling = stream_array(array) if ARRAYS[array].per == "text" else None
    else:
        array, pooling = settled_array(splits.kind, None, token_head, splits.point), None
    filled = replace(settled, label=splits.column, decoder=named, pooling=pooling)
    filled = _check_draw(spec, filled, probed)
    if filled.group is not None:
        say_sizes(splits.example_groups("train"), filled.group)
    if spec.method is None:  # else the model makes the layers that are read
        _check_stored(probed, "tokens" if head.reads == "tokens" else array)
    solving = _solving(spec, filled, probed)
    if solving is None:
        start = open_start(filled, probed)
    else:
        start = SavedStart(name=SOLVED, fingerprint=solving.options.key)
        filled = replace(filled, start=SOLVED, normalize=solving.spec.normalize)
    options = ResolvedOptions(
        spec=filled,
        task=splits.task.name,
        layers=layers,
        metric=splits.metric,
        entries={split: splits.entries[split].manifest.key for split in splits.labels},
        labels_fingerprint=digest(
            {name: split.fingerprint for name, split in splits.labels.items()}
        ),
        numerics=FITTERS[filled.fit].numerics_of(head, frozen=filled.freeze_fusion),
        start=start.fingerprint,
        groups=splits.cut_fingerprint if filled.group or filled.drop_duplicates else None,
        plugins=_used_plugins(filled, probed),
        dropout=_dropout(filled, config),
    )
    return _planned(options, start, solving, probed)


def _check_labels(spec: TrainSpec, splits: Splits) -> None:
    """Refuse what the labels, or their splits, do not allow; errors are those of `resolve`."""
    targets = KINDS[splits.kind].targets
    if KINDS[splits.kind].per == "span" and (spec.method or spec.pooling):
        option = f"--method {spec.method}" if spec.method else f"--pooling {spec.pooling}"
        raise OptionError(
            f"{option} does not apply to {splits.column!r}: the rows of spans are made of cached "
            "words (--token-head). Leave it out."
        )
    if "dev" not in splits.labels and spec.hold_out is None:
        raise DataError(splits.missing_dev)
    if spec.shots is not None and targets not in ("classes", "sets"):
        raise OptionError(
            f"--shots {spec.shots} draws sentences per class, and {splits.task.name} has no "
            f"classes ({splits.kind}): give --fraction instead, such as --fraction 0.1."
        )
    if METRICS[splits.metric].consumes == "scores" and targets != "sets":
        raise OptionError(
            f"{splits.task.name} is scored by {splits.metric}, which ranks, but runs of "
            f"{splits.kind} labels are selected by right and wrong: give the task accuracy or "
            f"macro-f1, and compare by {splits.metric} with --metric {splits.metric}."
        )


def _solving(spec: TrainSpec, filled: TrainSpec, probed: Probed) -> Run | None:
    """Return the run from the cache that solves where another one starts; None of other starts.

    A split that chooses the other's checkpoint chooses its strength of L2. Where a share of the
    drawn sentences does that, the choice is a solver's usual one, on the sentences that are left.

    Args:
        spec: the run that starts there, as the user gave it.
        filled: the same, filled in.
        probed: what it reads, and what reads it.

    Raises:
        OptionError: a solved start was asked for, and nothing can be solved.
    """
    if spec.start != SOLVED:
        return None
    try:
        if (solver := solver_of(probed)) is None:
            reason = FITTERS["lbfgs"].unsuited(probed.head, probed.decoder, frozen=False)
            raise OptionError(
                f"{reason}, so it cannot be solved. Choose another head or decoder, see `probekit "
                "heads`."
            )
        others = (Tuning, Steps, Descent, Start, Origin)
        usual: dict[str, Any] = {f.name: f.default for group in others for f in fields(group)}
        settings = str(filled.decoder).split(":")
        usual["decoder"] = ":".join(text for text in settings if not text.startswith("dropout="))
        # what judges in the run's stream stands in for dev: see `solve_start`
        by_split = filled.selection is not None and filled.selection.by_split
        usual["select"] = "dev" if by_split else None
        cached = replace(filled, **usual, fit=solver, normalize=spec.normalize)
        fitted, _ = fitted_and_judging(filled, probed.splits, probed.drawn)
        return resolve(cached, probed.splits, fitted)
    except (DataError, OptionError) as error:
        raise OptionError(f"--start {SOLVED}: {error} Or give --start {RANDOM}.") from None


def _dropout(spec: TrainSpec, kept: Mapping[str, Any]) -> dict[str, float]:
    """Return the dropout of a model that is trained: entries of one key may differ in it.

    Args:
        spec: a run.
        kept: the configuration that the entry keeps; that of a model on this disk goes before.
    """
    if not spec.tunes:
        return {}
    from probekit.backbone.facts import dropout_of

    return dropout_of(typed_config(spec.model) or kept)


def typed_config(model: str) -> dict[str, Any] | None:
    """Return the configuration of the model in a folder that was typed; None where none is."""
    config = read_object(Path(model).expanduser() / "config.json")
    return config if config and "model_type" in config else None


def _planned(
    options: ResolvedOptions, start: SavedStart, solving: Run | None, probed: Probed
) -> Run:
    """Return a run of settled options, with its member and what planning needs to know of it."""
    spec, splits, head = options.spec, probed.splits, probed.head
    backbone = splits.entries["train"].backbone
    assert spec.normalize is not None and spec.decoder is not None
    member = MemberSpec(
        head=head,
        decoder=probed.decoder.bind(backbone),
        layers=options.layers,
        normalize=spec.normalize,
        fitter=spec.fit,
        select=spec.selection,
        l2=spec.l2,
        descent=spec.of(Descent),
        start=start.state,
        freeze_head=spec.freeze_fusion,
    )
    with torch.device("meta"):  # without memory for its values
        empty = head.build(options.layers, splits.dim, torch.Generator("cpu"))
    n_head = count_parameters(empty)
    return Run(
        options=options,
        member=member,
        n_sentences=len(fitted_and_judging(spec, splits, probed.drawn)[0]),
        n_params=n_head + count_decoder(spec.decoder, backbone, empty.width, splits.n_outputs),
        linear=isinstance(member.decoder, Linear) and (member.freeze_head or n_head == 0),
        n_values=probed.n_values,
        init=start.name,
        classes=splits.label_map.names,
        solving=solving,
    )


def _check_draw(spec: TrainSpec, filled: TrainSpec, probed: Probed) -> TrainSpec:
    """Return the spec with what chooses, as far as the drawn examples allow.

    Folds are fewer if none were asked for.

    Raises:
        OptionError: a solver would have one class, or no class has an example for every fold; or
            there are fewer groups than folds.
    """
    splits, drawn, select = probed.splits, probed.drawn, filled.selection
    if not solves(filled.fit):
        return filled
    units = count_units(splits, drawn)
    grouped = filled.group is not None or filled.drop_duplicates
    if select is not None and grouped:
        least = replace(select, folds=2) if select.folds and spec.select is None else select
        least.check_units(units, "among the drawn sentences", filled.group)
    # If 3 of 8 drawn examples have the most frequent class, the default cv:5 becomes "cv:3 of 5",
    # and a cv:5 that was asked for is refused; if it has one, the default becomes dev.
    most = units
    if KINDS[splits.kind].targets in ("classes", "sets"):
        of_class = _most_frequent(splits, filled.pooling, drawn.tobytes())
        most = min(units, of_class) if grouped else of_class
    elif not grouped:
        return filled
    if select is None or select.kind != "cv":
        return filled
    if select.folds > most and spec.select is None:
        fewer = replace(select, folds=most, default=select.folds)
        return replace(filled, select=str(fewer) if most > 1 else "dev")
    select.check_classes(most)
    return filled


@lru_cache(maxsize=64)
def _most_frequent(splits: Splits, pooling: str | None, drawn: bytes) -> int:
    """Return how many of the drawn examples have the most frequent class.

    Raises:
        OptionError: they have one class.
    """
    view = train_view(splits, pooling).take(np.frombuffer(drawn, np.int64))
    check_two_classes(view)
    return max(class_counts(view).values(), default=0)


def default_decoder(head: HeadSpec, splits: Splits, *, as_published: bool = False) -> str:
    """Return the head's published decoder where it fits, else the default of the labels' kind.

    As the papers do, whole texts of encoders have a pooler, which BERT's pretraining trains in.
    """
    published = head.default_decoder
    if published is not None and splits.kind in DECODERS[published].kinds:
        return published
    kind = KINDS[splits.kind]
    whole = kind.per == "text" and kind.targets == "classes"
    return "pooler" if as_published and whole and not splits.manifest.causal else kind.decoder


def _bound_head(spec: TrainSpec, splits: Splits, config: Mapping[str, Any]) -> HeadSpec:
    """Return the head of a run, over tokens where their head is trained with it.

    Raises:
        OptionError: it reads other rows than a token head makes, or another point.
    """
    facts = BackboneFacts(n_blocks=splits.manifest.n_blocks, dim=splits.dim, config=config)
    head = parse("head", spec.head, HEADS).bind(facts)
    if (token_head := splits.token_head) is not None and token_head.fixed:
        check_reads_rows(head, token_head)
    elif token_head is not None:
        head = OverTokens(head=head, token_head=token_head)
    if head.name == "last" and splits.point.joined:
        raise OptionError(
            f"--point {splits.point}: head last reads a single layer, so it cannot join points. "
            "Give a head that reads several, such as --head p32 or --head mean."
        )
    if head.reads == "tokens" and splits.point != STREAM:
        raise OptionError(
            f"--point {splits.point}: head {head.name} goes on from the residual stream of the "
            "last layer. Choose another head, or leave --point out."
        )
    return head


def _check_stored(probed: Probed, array: str) -> None:
    """Refuse to read an array, or layers of it, that an entry does not hold."""
    splits, head = probed.splits, probed.head
    for entry in (splits.entries[split] for split in splits.labels):
        if array not in entry.arrays:
            raise DataError(f"head {head.name} reads {array!r}: {missing_array(entry, array)}")
        stored = read_array(entry, array, splits.point).layers
        absent = sorted(set(probed.layers) - set(stored))
        if absent:
            layers_option = " (--layers 0:)" if array == TOKENS else ""
            remedy = f"Extract with all layers{layers_option}, or choose others with --layers."
            if head.reads == "tokens":
                remedy = "Use train or sweep, without --layers."
            if splits.point != STREAM and absent == [0]:
                remedy = NO_BLOCK
            raise OptionError(
                f"the head reads layer {layer_text(absent[0])}, but {array!r} of {entry.path} "
                f"holds layers {layers_text(stored)}. {remedy}"
            )


@lru_cache(maxsize=256)
def count_decoder(name: str, backbone: Path, width: int, n_outputs: int) -> int:
    """Return the trained values of a decoder; it is created for that, and let go.

    Args:
        name: of the decoder, with settings.
        backbone: the ``backbone/`` folder of the train split's entry.
        width: of what it reads.
        n_outputs: numbers that it gives per row.
    """
    decoder = parse("decoder", name, DECODERS).bind(backbone)
    return count_parameters(decoder.build(width, n_outputs, torch.Generator()))


def _used_plugins(spec: TrainSpec, probed: Probed) -> dict[str, dict[str, str]]:
    """Return the origin of each plug-in that is not probekit's own, by kind."""
    token_head = probed.splits.token_head
    origins: dict[str, PluginOrigin | None] = {
        "head": HEADS.origin(probed.head.name),
        "token_head": None if token_head is None else TOKEN_HEADS.origin(token_head.name),
        "decoder": DECODERS.origin(probed.decoder.name),
        "normalization": NORMALIZATIONS.origin(spec.normalize or "none"),
        "fitter": FITTERS.origin(spec.fit),
        "metric": METRICS.origin(probed.splits.metric),
    }
    return {kind: origin.to_json() for kind, origin in origins.items() if origin is not None}
