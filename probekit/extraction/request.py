"""What options mean for a task and a model: which rows are kept, and what an entry's key hashes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from probekit.backbone import BackboneInfo, Inspection
from probekit.backbone.points import Place, check_points
from probekit.base.kinds import ARRAYS, KINDS, LAST_ONLY, OUTPUT_HEAD, stream_array
from probekit.base.layers import RESID_POST, parse_layers
from probekit.data.encoded import Pooling
from probekit.data.predicted import RATE
from probekit.errors import OptionError
from probekit.extraction.request_options import KEEP, ExtractOptions
from probekit.store.manifest import FORMAT_VERSION
from probekit.tasks import Task

DEFAULT_EVERY = 8
"""Neighbouring positions of a text predict from nearly the same states: one in eight is kept."""

_AS_GIVEN = ("format", "dtype", "compute_dtype", "overlong", "max_length")
"""Options that a key hashes as they were given; the batch size moves the last bits at most."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for one task, of a model or of states that another program computed.

    Attributes:
        info: the model's facts.
        task: the task.
        options: what is asked for.
        keep: what is stored, by name, in the order of an entry.
        pooling: which subwords make a word's row; None where rows are words, and nobody says it.
        masking: what is predicted, for language modelling.
        places: of the points that are asked for besides the residual stream.
        imported: what tells states of another program from others; None of a model that runs.
    """

    info: BackboneInfo
    task: Task
    options: ExtractOptions
    keep: tuple[str, ...]
    pooling: Pooling | None
    masking: Mapping[str, Any] | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    imported: Mapping[str, Any] | None = None

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that are stored, ascending.

        Raises:
            OptionError: one does not exist.
        """
        return parse_layers(self.options.layers, self.info.n_blocks)

    @property
    def tokens_of_layers(self) -> bool:
        """Whether ``tokens`` are of all layers that are named, or chosen; else of the last one."""
        if "tokens" not in self.keep or KINDS[self.task.kind].per != "text":
            return False
        options = self.options
        named = options.layers != "all" and self.layers != (self.info.n_blocks,)
        return named or options.only is not None or options.points is not None

    @property
    def layers_of(self) -> dict[str, tuple[int, ...]]:
        """The layers of each array to store, in the entry's order: those in ``keep`` at each point.

        ``tokens`` of the last layer alone are of the residual stream only; points inside blocks
        lack layer 0.

        Raises:
            OptionError: a layer does not exist.
        """
        points = self.options.points or (RESID_POST,)
        alone = () if self.tokens_of_layers else LAST_ONLY
        blocks = tuple(layer for layer in self.layers if layer > 0)
        of_arrays = {}
        for name, array in ARRAYS.items():
            if stream_array(name) not in self.keep or array.point not in points:
                continue
            if array.point == RESID_POST:
                of_arrays[name] = (self.info.n_blocks,) if name in alone else self.layers
            elif stream_array(name) not in alone:
                of_arrays[name] = blocks
        return of_arrays

    def to_json(self, text_fingerprint: str, template: str | None = None) -> dict[str, Any]:
        """Return what the key of a split's entry hashes, as JSON values.

        Equal requests name the same numbers, wherever the model came from and whatever computed
        them: layers, arrays and pooling are written out, dtypes stay as requested ("auto" stays
        auto), and nothing is about the machine.

        Args:
            text_fingerprint: of the split.
            template: sha256 of the chat template, where the texts are conversations.

        Raises:
            OptionError: a layer does not exist.
        """
        tokens = (self.options.only or "all") if self.tokens_of_layers else None
        some = {
            "tie": self.options.tie,
            "tokens": tokens,
            "chat_template": template,
            "imported": self.imported,
        }
        return {
            "format_version": FORMAT_VERSION,
            "model": self.info.identity.to_json(),
            "text": text_fingerprint,
            **{name: getattr(self.options, name) for name in _AS_GIVEN},
            "keep": sorted([*self.layers_of, *({OUTPUT_HEAD} & {*self.keep})]),
            "layers": list(self.layers),
            "pooling": self.pooling,
            "masking": self.masking,
            **{name: value for name, value in some.items() if value is not None},
        }


def ask_model(inspection: Inspection, task: Task, options: ExtractOptions) -> Request:
    """Return what is asked of a model, after checking it: it makes a key of its own.

    Args:
        inspection: the model's facts and tokenizers.
        task: the task.
        options: what is asked for.

    Raises:
        OptionError: an option, or something to keep, means nothing for task and model.
        BackboneError: a point was not found in the model's blocks.
    """
    info, structure = inspection.info, inspection.structure
    _check_fits(options, task, info)
    choose_max_length(options, info)
    lacking: dict[str, str] = {}
    if odd := structure.odd.get(info.n_blocks):
        lacking = dict.fromkeys(
            (*LAST_ONLY, OUTPUT_HEAD),
            f"it belongs to layer {info.n_blocks}, and in {info.name} that is {odd} and the others "
            f"{info.dim} wide",
        )
    keep = choose_kept(task, options, lacking)
    if options.only is not None and (KINDS[task.kind].per != "text" or task.kind == "pair"):
        raise OptionError(
            f"--only {options.only} keeps some tokens of running texts, and those of {task.name} "
            f"are {'pairs' if task.kind == 'pair' else 'not labelled as wholes'}. Leave it out."
        )
    # a choice of output head that no entry can keep
    if options.tie is not None and OUTPUT_HEAD not in keep:
        raise OptionError(
            f"--tie {options.tie} makes an output head, but none is kept. Add --keep {OUTPUT_HEAD}."
            if "predicted" in keep
            else f"--tie {options.tie} is for language modelling, whose output head it makes. "
            f"Leave it out; to keep an output head for another task, add --keep {OUTPUT_HEAD}."
        )
    if OUTPUT_HEAD in keep and options.random_init is not None and options.tie is None:
        raise OptionError(
            "--random-init: a model with random weights has no output head. Add --tie input, which "
            "makes one from its input embeddings."
        )
    # what is not of the model's width, before anything is computed
    structure.check_layers(info.name, parse_layers(options.layers, info.n_blocks))
    request = Request(
        info=info,
        task=task,
        options=options,
        keep=keep,
        pooling=choose_pooling(task, options, info),
        masking=_masking(task, options, info),
        places=_places(inspection, options),
    )
    if not request.layers_of:
        raise OptionError(
            f"--keep tokens --points {','.join(options.points or ())}: for {task.name}, tokens are "
            f"stored at the last layer of {RESID_POST} only. Keep words instead."
        )
    if not all(request.layers_of.values()):
        raise OptionError(
            f"--layers {options.layers}: layer 0, the embeddings, belongs to no block and has only "
            f"{RESID_POST}. Choose layers from 1 on, or leave out --points."
        )
    return request


def _places(inspection: Inspection, options: ExtractOptions) -> dict[str, Place]:
    """Return the places of the points that are asked for besides the residual stream.

    Raises:
        BackboneError: the model has not been proven to have one of them.
        OptionError: a saved run trained the model.
    """
    if options.points is None:
        return {}
    if inspection.tuned is not None:
        raise OptionError(
            f"--points {','.join(options.points)}: a model trained by probekit offers only "
            f"{RESID_POST}. Leave --points out."
        )
    places = inspection.places
    check_points(inspection.info.name, places, options.points)
    return {point: places[point] for point in options.points if point != RESID_POST}


def choose_kept(task: Task, options: ExtractOptions, lacking: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is stored, by name, in the order of an entry.

    Unless told otherwise it is what the kinds of the task's label columns need: a row per word
    and the last layer's subwords for tags, three rows per text for one label, a row per
    prediction and the output head for language modelling.

    Args:
        task: the task.
        options: what is asked for.
        lacking: what there is not, and why; arrays that are needed are then left out.

    Raises:
        OptionError: the task's text has no such rows, or the states have not.
    """
    kinds = {task.kind, *task.kinds.values()}
    needed = {name for kind in kinds for name in KINDS[kind].needed}
    needed -= {name for name in lacking if name in ARRAYS}
    possible = (*KINDS[task.kind].possible, "tokens", OUTPUT_HEAD)
    for name in options.keep or needed:
        if name not in possible:
            raise OptionError(
                f"--keep {name}: the text of {task.name} ({task.kind}) has no such rows. "
                f"Choose from: {', '.join(possible)}."
            )
        if name in lacking:
            raise OptionError(f"--keep {name}: {lacking[name]}. Leave it out.")
    return options.keep or tuple(name for name in KEEP if name in needed)


def choose_pooling(task: Task, options: ExtractOptions, info: BackboneInfo) -> Pooling:
    """Return which subwords make a word's row: by default the one that has seen the whole word.

    Raises:
        OptionError: it is given, and texts are not split into words.
    """
    if options.pooling == "auto":
        return "last" if info.causal else "first"
    if KINDS[task.kind].per != "word":
        raise OptionError(
            f"--pooling says which subwords make a word's row, and the texts of {task.name} are "
            "not split into words. Leave it out; training chooses among the rows of a text."
        )
    return cast(Pooling, options.pooling)


def choose_max_length(options: ExtractOptions, info: BackboneInfo) -> int:
    """Return the most subwords of a window, special tokens included.

    Raises:
        OptionError: the model reads fewer.
    """
    limit, asked = info.identity.max_length, options.max_length
    if asked is not None and asked > limit:
        raise OptionError(f"--max-length {asked}: {info.name} reads at most {limit} subwords.")
    return asked or limit


def _masking(task: Task, options: ExtractOptions, info: BackboneInfo) -> dict[str, Any] | None:
    """Return what is predicted, for language modelling.

    The form follows the model: hidden tokens for one that reads both ways, the next token for
    a causal one.
    """
    if KINDS[task.kind].per != "prediction":
        return None
    if info.causal:
        return {"form": "next", "every": options.every or DEFAULT_EVERY}
    passes, seed = options.passes or 1, options.mask_seed or 0
    return {"form": "masked", "rate": RATE, "passes": passes, "seed": seed}


def _check_fits(options: ExtractOptions, task: Task, info: BackboneInfo) -> None:
    predicts = KINDS[task.kind].per == "prediction"
    if predicts and options.overlong != "stride":
        raise OptionError(
            "--overlong: language modelling reads texts in consecutive blocks of --max-length, so "
            "none is too long. Leave it out."
        )
    masked, causal = predicts and not info.causal, predicts and info.causal
    for typed, given, fits, form, models in (
        ("--passes", options.passes, masked, "masked language modelling", "bidirectional"),
        ("mask_seed", options.mask_seed, masked, "masked language modelling", "bidirectional"),
        ("--every", options.every, causal, "next-token prediction", "causal"),
    ):
        if given is not None and not fits:
            raise OptionError(
                f"{typed} is for {form}: a task of that kind and a {models} model. Leave it out."
            )
