"""What options mean for a task and a model: which rows are kept, and what an entry's key hashes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast, runtime_checkable

from probekit.backbone import BackboneInfo, Inspection
from probekit.base.kinds import ARRAYS, KINDS, LAST_ONLY, OUTPUT_HEAD
from probekit.base.layers import parse_layers
from probekit.data.pooling import Pooling
from probekit.data.predicted import RATE
from probekit.errors import OptionError
from probekit.extraction.request_options import KEEP, ExtractOptions
from probekit.store.manifest import FORMAT_VERSION
from probekit.tasks import Task

DEFAULT_EVERY = 8
"""Neighbouring positions of a text predict from nearly the same states: one in eight is kept."""


_AS_GIVEN = ("format", "dtype", "compute_dtype", "overlong", "max_length")
"""Options that a key hashes as they were given; the batch size moves the last bits at most."""


@runtime_checkable
class Asked(Protocol):
    """What is asked for one task, of a model or of files with its states."""

    @property
    def info(self) -> BackboneInfo:
        """The model's facts."""

    @property
    def task(self) -> Task:
        """The task."""

    @property
    def options(self) -> ExtractOptions:
        """How it is stored."""

    @property
    def masking(self) -> Mapping[str, Any] | None:
        """What is predicted, for language modelling."""

    def to_json(self, text_fingerprint: str) -> dict[str, Any]:
        """Return what the key of a split's entry hashes, as JSON values."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of one model for one task; options that mean nothing for them are refused.

    Attributes:
        inspection: the model's facts and tokenizers.
        task: the task.
        options: what is asked for.
    """

    inspection: Inspection
    task: Task
    options: ExtractOptions

    @property
    def info(self) -> BackboneInfo:
        """The model's facts."""
        return self.inspection.info

    def __post_init__(self) -> None:
        """Check the options, before they make a key of their own.

        Raises:
            OptionError: an option, or something to keep, means nothing for task and model.
        """
        options, info, structure = self.options, self.info, self.inspection.structure
        _check_fits(options, self.task, info)
        keep = self.keep
        # a choice of output head that no entry can keep
        if options.tie is not None and OUTPUT_HEAD not in keep:
            raise OptionError(
                f"--tie {options.tie} makes an output head, and none is kept: add --keep "
                f"{OUTPUT_HEAD}."
                if "predicted" in keep
                else f"--tie {options.tie} is for language modelling, whose output head it makes. "
                f"Leave it out; to keep an output head for another task, add --keep {OUTPUT_HEAD}."
            )
        if OUTPUT_HEAD in keep and options.random_init is not None and options.tie is None:
            raise OptionError(
                "--random-init: random weights come without an output head. Give --tie input: a "
                "trained transform over their input embeddings."
            )
        # what is not of the model's width, before anything is computed
        structure.check_layers(info.name, parse_layers(options.layers, info.n_blocks))
        of_last = [name for name in keep if name == OUTPUT_HEAD or ARRAYS[name].last_only]
        if of_last and info.n_blocks in structure.odd:
            raise OptionError(
                f"--keep {of_last[0]}: it belongs to layer {info.n_blocks}, and in {info.name} "
                f"that is {structure.odd[info.n_blocks]} and the others {info.dim} wide. Leave it "
                "out."
            )

    @cached_property
    def keep(self) -> tuple[str, ...]:
        """What is stored, by name, in the order of an entry.

        Unless told otherwise it is what the kinds of the task's label columns need: a row per word
        and the last layer's subwords for tags, three rows per text for one label, a row per
        prediction and the output head for language modelling.

        Raises:
            OptionError: the task's text has no such rows.
        """
        task, info = self.task, self.info
        if self.options.keep is None:
            kinds = {task.kind, *task.kinds.values()}
            needed = {name for kind in kinds for name in KINDS[kind].needed}
            if info.n_blocks in self.inspection.structure.odd:
                needed -= set(LAST_ONLY)
            return tuple(name for name in KEEP if name in needed)
        possible = (*KINDS[task.kind].possible, "tokens", OUTPUT_HEAD)
        for name in self.options.keep:
            if name not in possible:
                raise OptionError(
                    f"--keep {name}: the text of {task.name} ({task.kind}) has no such rows. "
                    f"Choose from: {', '.join(possible)}."
                )
        return self.options.keep

    @property
    def pooling(self) -> Pooling:
        """Which subwords make a word's row: by default the one that has seen the whole word."""
        if self.options.pooling == "auto":
            return "last" if self.info.causal else "first"
        return cast(Pooling, self.options.pooling)

    @property
    def max_length(self) -> int:
        """Most subwords of a window, special tokens included.

        Raises:
            OptionError: the model reads fewer.
        """
        limit, asked = self.info.identity.max_length, self.options.max_length
        if asked is not None and asked > limit:
            raise OptionError(
                f"--max-length {asked}: {self.info.name} reads at most {limit} subwords."
            )
        return asked or limit

    @property
    def masking(self) -> dict[str, Any] | None:
        """What is predicted, for language modelling.

        The form follows the model: hidden tokens for one that reads both ways, the next token for
        a causal one.
        """
        options = self.options
        if KINDS[self.task.kind].per != "prediction":
            return None
        if self.info.causal:
            return {"form": "next", "every": options.every or DEFAULT_EVERY}
        passes, seed = options.passes or 1, options.mask_seed or 0
        return {"form": "masked", "rate": RATE, "passes": passes, "seed": seed}

    def to_json(self, text_fingerprint: str) -> dict[str, Any]:
        """Return what the key of a split's entry hashes, as JSON values.

        Equal requests name the same numbers, wherever the model came from and whatever computed
        them: layers, arrays and pooling are written out, dtypes stay as requested ("auto" stays
        auto), and nothing is about the machine.

        Args:
            text_fingerprint: of the split.

        Raises:
            OptionError: a layer does not exist.
        """
        request = {
            "format_version": FORMAT_VERSION,
            "model": self.info.identity.to_json(),
            "text": text_fingerprint,
            **{name: getattr(self.options, name) for name in _AS_GIVEN},
            "keep": sorted(self.keep),
            "layers": list(parse_layers(self.options.layers, self.info.n_blocks)),
            "pooling": self.pooling,
            "masking": self.masking,
        }
        return request if self.options.tie is None else request | {"tie": self.options.tie}


def _check_fits(options: ExtractOptions, task: Task, info: BackboneInfo) -> None:
    kind = KINDS[task.kind]
    predicts = kind.per == "prediction"
    if options.pooling != "auto" and kind.per != "word":
        raise OptionError(
            f"--pooling says which subwords make a word's row, and the texts of {task.name} are "
            "not split into words. Leave it out; training chooses among the rows of a text."
        )
    if predicts and options.overlong != "stride":
        raise OptionError(
            "--overlong: for language modelling, texts are read in blocks of --max-length, one "
            "after the other. Leave it out."
        )
    masked, causal = predicts and not info.causal, predicts and info.causal
    for option, given, fits, form, models in (
        ("--passes", options.passes, masked, "masked language modelling", "bidirectional"),
        ("--mask-seed", options.mask_seed, masked, "masked language modelling", "bidirectional"),
        ("--every", options.every, causal, "next-token prediction", "causal"),
    ):
        if given is not None and not fits:
            raise OptionError(
                f"{option} is for {form}: a task of that kind and a {models} model. Leave it out."
            )
