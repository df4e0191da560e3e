"""The options of a run besides those that the training loop takes, in groups.

Like `option_groups` it imports no torch. An option with help is one of the command line.
"""

import math
from dataclasses import dataclass
from typing import Any

from probekit.base.kinds import POOLED
from probekit.base.layers import STREAM, ReadPoint, typed_layers
from probekit.base.registry import Panel, choose, option, typed_name
from probekit.base.selection import (
    FIXED,
    PROTOCOL_DEFAULTS,
    PUBLISHED,
    RANDOM,
    SEARCHED,
    SOLVED,
    Selection,
)
from probekit.errors import OptionError
from probekit.train.option_groups import BELOW_ZERO, Descent, Group, Steps, check_range, check_whole

DEFAULT_BATCH_TOKENS: int = PROTOCOL_DEFAULTS["batch_tokens"]
"""Padded subwords that run through a model at once, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Data(Group):
    """What is read: it decides which splits a run opens.

    Attributes:
        model: the backbone, as in ``probekit extract``.
        task: name of the task.
        label: label column; ``None`` is the task's default.
        control: seed of control labels that replace the real ones (Hewitt & Liang 2019).
        fit_on: the split to fit on, for data without a train split (with ``hold_out``).
        group: column of what sentences have in common (a prompt, a document), or ``phrases``; what
            is held out, and every fold, has all sentences of a group or none. Shares are of groups
            then.
        drop_duplicates: leave out of train every text that another labelled split holds too, and
            keep equal ones together as a group does. Texts are compared once they are normalised
            (``features.duplicates``); a pair counts by each of its texts.
        label_noise: share of train's labels that are replaced with another class, the same for
            every seed. Dev and test keep theirs; what ``hold_out`` keeps is changed, too.
        positives: for texts of two classes, the share of train that has the class that sorts last.
            Surplus texts of either class are left out, the same for every seed.
        token_head: name of the token head that makes a row of a text's tokens or a span's words,
            with options where they differ from the default; ``None`` reads the rows that
            ``pooling`` names, and the mean of a span's words.
        point: where in each block the rows were taken (``extract --points``): ``attn_out``,
            ``mlp_out``, ``mlp_act``, ``z`` or one attention head of it, ``z:head=3``; ``None`` is
            the residual stream.
    """

    PANEL = Panel.SENTENCES

    model: str
    task: str
    label: str | None = option(
        None, "Label column; the task's default if unset.", Panel.FIRST, each=str
    )
    control: int | None = option(
        None, "Learn a control task instead: random labels by word type, drawn with this seed."
    )
    fit_on: str = option("train", "Split to fit on, for data without a train split.")
    group: str | None = option(
        None,
        "Keep sentences together that share this column (prompt, document), in --select and "
        "--hold-out; phrases: texts that contain one another.",
    )
    drop_duplicates: bool = option(
        False, "Leave out train texts that also occur in dev or test; keep equal ones together."
    )
    label_noise: float | None = option(
        None, "Replace this share of train's labels with another class.", each=float
    )
    positives: float | None = option(
        None,
        "Texts of two classes: leave out train texts until this share has the class that sorts "
        "last.",
        each=float,
    )
    token_head: str | None = option(
        None,
        "What makes a row of a text's kept tokens, or of a span's words (see `probekit heads`), "
        "with options: attention:heads=4.",
        Panel.TRAINED,
        each=str,
    )
    point: str | None = option(
        None,
        "Which stored point to train on (see extract --points): attn_out, mlp_out, mlp_act or z; "
        "z:head=3 for one attention head, z:head=all for each in turn; resid_post+attn_out to "
        "train one head on all layers of both.",
        Panel.TRAINED,
        each=str,
    )

    def __post_init__(self) -> None:
        """Check the seed; take names of paths and points."""
        point = ReadPoint.parse(self.point)
        object.__setattr__(self, "point", None if point == STREAM else str(point))
        object.__setattr__(self, "model", typed_name(self.model))
        object.__setattr__(self, "task", typed_name(self.task))
        check_whole("control", self.control, least=0)
        check_range("label_noise", self.label_noise, 0, 1, "a number between 0 and 1")
        check_range("positives", self.positives, 0, 1, "a number between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(Group):
    """What is trained, and what it sees.

    Attributes:
        head: name of the head, with settings where they differ from the published ones:
            ``extra-layers``, ``extra-layers:n=2``. Settings that do not differ are dropped, so that
            one head has one name.
        decoder: name of the decoder, with settings likewise; ``None`` is the head's published one,
            else the default of what the labels are.
        layers: layers instead of the head's published ones, in the language of
            ``probekit.base.layers``; a number, or several, become text.
        depth: the largest layer the head may see; ``None`` is all of them.
        normalize: normalisation of each layer, one of ``NORMALIZATIONS``; ``None`` is that of the
            saved head that a run starts from, else ``none``.
        pooling: which row stands for a whole text, ``cls``, ``mean`` or ``last``; ``None`` is the
            last token of a causal model; of a bidirectional one the mean of all tokens, or the
            first under a pooler or ``as_published``. Labels of words have rows of their own.
    """

    PANEL = Panel.TRAINED

    head: str
    decoder: str | None = option(
        None,
        "Name of the decoder (see `probekit heads`), with options: mlp:hidden=128; the default for "
        "the labels if unset.",
        each=str,
    )
    layers: str | None = option(None, "Layers instead of the published ones, e.g. 0:13:2.")
    depth: int | None = None
    normalize: str | None = option(
        None,
        "Each layer before the head: none, layernorm, standardize, final-norm.",
        show_default="none; that of a saved head",
        each=str,
    )
    pooling: str | None = option(
        None,
        "For labels of whole texts: cls, mean or last row.",
        show_default="mean, cls under a pooler or a protocol, last for a causal model",
        each=str,
    )

    def __post_init__(self) -> None:
        """Check depth and pooling; write layers as text."""
        if self.layers is not None:
            object.__setattr__(self, "layers", typed_layers(self.layers))
        check_whole("depth", self.depth, least=0)
        if self.pooling is not None:
            choose("--pooling", self.pooling, dict.fromkeys(POOLED))


@dataclass(frozen=True, kw_only=True)
class Tuning(Group):
    """What is trained of the model beside the head.

    Attributes:
        method: name of a method of ``probekit.tuning.METHODS``, with settings where they differ
            from the default: ``lora:rank=4``. The model then runs in every step, cut to the last
            layer that the head reads. ``None`` is a run from the cache.
        batch_tokens: padded subwords that run through it at once; ``None`` is
            `DEFAULT_BATCH_TOKENS`. Other batches have other dropout masks.
    """

    PANEL = Panel.TRAINED

    method: str | None = option(
        None,
        "Train the model as well, which runs in every step: full, bitfit, lora (lora:rank=4); "
        "frozen runs it as it is.",
        show_default="none: the head alone, from the cache",
        each=str,
    )
    batch_tokens: int | None = option(
        None,
        "With --method: most subwords, padding included, that run through the model at once.",
    )

    def __post_init__(self) -> None:
        """Check the subwords, and that a model runs at all."""
        check_whole("batch_tokens", self.batch_tokens, least=1)
        if self.batch_tokens is not None and self.method is None:
            raise OptionError(
                f"batch_tokens {self.batch_tokens}: a run from the cache runs no model; leave it "
                "out, or give --method."
            )
        if self.batch_tokens == DEFAULT_BATCH_TOKENS:  # one run has one key
            object.__setattr__(self, "batch_tokens", None)


@dataclass(frozen=True, kw_only=True)
class Sample(Group):
    """Which sentences of train a run draws.

    Attributes:
        shots: K; K x C sentences of the train split are drawn. With 0, the saved head of
            ``init_from`` is scored as it is.
        fraction: share of the train split that is drawn, in (0, 1]; or 0, as for shots.
        hold_out: share of the train split that is kept as a split of its own, ``held-out``, in
            (0, 1); it serves as dev split for data without one.
        seed: decides sample, initialisation, order and dropout.
    """

    PANEL = Panel.SENTENCES

    shots: int | None = option(
        None, "K: draw K x classes training sentences.", Panel.FIRST, each=int
    )
    fraction: float | None = option(None, "Draw this share of the training sentences.", each=float)
    hold_out: float | None = option(
        None,
        "Share of train to hold out as a split of its own; as dev, if there is none.",
        Panel.FIRST,
    )
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every value."""
        if self.shots is not None and self.fraction is not None:
            raise OptionError("--shots and --fraction were both given; choose one.")
        for name in ("shots", "seed"):
            check_whole(name, getattr(self, name), least=0)
        check_range("fraction", self.fraction, BELOW_ZERO, 1 + 1e-12, "a number from 0 to 1")
        check_range("hold_out", self.hold_out, 0, 1, "a number between 0 and 1")

    @property
    def untrained(self) -> bool:
        """Whether nothing is trained: a saved head is scored as it is."""
        return 0 in (self.shots, self.fraction)


@dataclass(frozen=True, kw_only=True)
class Fitting(Group):
    """What fits, and what chooses between fits.

    Attributes:
        fit: how it is fitted, a name of ``FITTERS``: ``adam`` by steps, ``lbfgs`` or ``ridge`` to
            the optimum; ``auto`` is a solver wherever the problem is smooth and small, unless one
            of the options of descent is given.
        select: what chooses the strength of L2, or under ``adam`` the checkpoint: ``dev``,
            ``held-out`` (what ``hold_out`` keeps), ``cv:K`` (folds of the drawn sentences),
            or ``hold-out:F`` (a share of them); ``None`` is ``held-out`` where
            there is that beside a dev split, else ``dev`` where the task has a labelled test split,
            else ``cv:5`` (a share of 0.1 under ``adam``).
        l2: strength of a solver's L2; ``None`` chooses it among those of its path.
    """

    PANEL = Panel.FITTED

    fit: str = option(
        "auto",
        "How: lbfgs or ridge solve for the optimum, adam takes steps; auto solves where the "
        "problem is smooth and small.",
    )
    select: str | None = option(
        None,
        "What chooses L2, checkpoint or rate: dev, held-out (--hold-out), cv:K, hold-out:F.",
        show_default="held-out beside dev; else dev, or cv:5 without a labelled test split",
    )
    l2: float | None = option(
        None, "Strength of a solver's L2; auto tunes it.", show_default="auto", each=float
    )

    def __post_init__(self) -> None:
        """Check the strength, and write the selection in its one form."""
        check_range("l2", self.l2, 0, math.inf, "a number above 0")
        if (selection := self.selection) is not None:
            object.__setattr__(self, "select", str(selection))

    @property
    def selection(self) -> Selection | None:
        """What chooses, of a settled run; else what was asked for."""
        return None if self.select is None else Selection.parse(self.select)


@dataclass(frozen=True, kw_only=True)
class Start(Group):
    """Where head and decoder are before the first step.

    Attributes:
        start: of a run that trains the model, ``random`` or ``solved``: as the cached rows of its
            sentences have them solved (linear probing, then fine-tuning: Kumar et al. 2022,
            "Fine-tuning can distort pretrained features and underperform out-of-distribution");
            ``None`` is ``random``.
        fusion_from: folder of a saved head whose fusion this run starts from.
        freeze_fusion: keep that fusion as it is, and train the decoder alone.
        init_from: folder of a saved head that this run goes on training, decoder included.
    """

    PANEL = Panel.TRAINED

    start: str | None = option(
        None,
        "Folder of a saved head to go on training (with --shots 0 to score as it is); "
        "fusion:DIR takes its fusion alone, frozen-fusion:DIR freezes it as well. With --method "
        "also random, or solved (on the cached rows of the same sentences).",
        unset=RANDOM,
        each=str,
    )
    fusion_from: str | None = None
    freeze_fusion: bool = False
    init_from: str | None = None

    def __post_init__(self) -> None:
        """Refuse two starts, and freezing without one; take names of paths."""
        for name in ("fusion_from", "init_from"):
            if (folder := getattr(self, name)) is not None:
                object.__setattr__(self, name, typed_name(folder))
        if self.start is not None:
            choose("start", self.start, dict.fromkeys((RANDOM, SOLVED)))
        if self.fusion_from is not None and self.init_from is not None:
            raise OptionError("fusion_from and init_from were both given; choose one.")
        if self.start == SOLVED and (self.fusion_from or self.init_from):
            raise OptionError(f"start={SOLVED!r} and a saved head are two starts; choose one.")
        if self.freeze_fusion and self.fusion_from is None:
            raise OptionError("freeze_fusion needs a fusion to freeze: fusion_from, its folder.")

    @property
    def typed(self) -> str | None:
        """The start as it is typed, which `start_of` reads."""
        if self.init_from is not None:
            return self.init_from
        if self.fusion_from is None:
            return self.start
        return f"{_FROZEN_FUSION if self.freeze_fusion else _FUSION}{self.fusion_from}"


_FUSION, _FROZEN_FUSION = "fusion:", "frozen-fusion:"


def start_of(text: str) -> dict[str, Any]:
    """Return the options of `Start` that a user's ``--start`` stands for.

    Args:
        text: ``random``, ``solved``, the folder of a saved head, ``fusion:`` and such a folder, or
            ``frozen-fusion:`` and such a folder.
    """
    if text in (RANDOM, SOLVED):
        return {"start": text}
    for prefix, freeze in ((_FUSION, False), (_FROZEN_FUSION, True)):
        if text.startswith(prefix):
            return {"fusion_from": text.removeprefix(prefix), "freeze_fusion": freeze}
    return {"init_from": text}


@dataclass(frozen=True, kw_only=True)
class Origin(Group):
    """Where options are from and what a run is for: what it does is the same with any value.

    Attributes:
        as_published: read and decode whole texts, and set the rates of groups, as the papers do: by
            a pooler over the first token for encoders, and ``lr`` for all; and fit by ``adam``. A
            settled run says all that in its other options.
        rate_from: where the rates are from: ``published``, ``fixed`` or ``searched``; ``None``
            is ``fixed``.
        trial: whether the run is one of a search, which tables leave out.
        left_out: layer of another run that this one leaves out, for the ablation of that one.
    """

    as_published: bool = False
    rate_from: str | None = None
    trial: bool = False
    left_out: int | None = None

    def __post_init__(self) -> None:
        """Check the origin of the rates."""
        if self.rate_from is not None:
            choose("origin of a rate", self.rate_from, dict.fromkeys((PUBLISHED, FIXED, SEARCHED)))


GROUPS: tuple[type[Group], ...] = (
    Data, ProbeOptions, Tuning, Sample, Steps, Descent, Fitting, Start, Origin,
)  # fmt: skip
"""All groups; a sweep varies the options of the first ones slowest."""
