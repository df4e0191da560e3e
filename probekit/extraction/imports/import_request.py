"""What an import is asked for, and the facts of the model whose states it reads."""

from dataclasses import dataclass, replace
from typing import Any

from probekit.backbone import BackboneInfo, Inspection
from probekit.backbone.facts import Identity
from probekit.base.fingerprint import digest
from probekit.base.kinds import KINDS, LAST_ONLY, OUTPUT_HEAD, KindName
from probekit.base.layers import parse_layers
from probekit.data.encoded import Pooling
from probekit.errors import DataError, OptionError
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.imports.token_matching import Matched
from probekit.extraction.request import Request, choose_kept, choose_pooling
from probekit.extraction.request_options import ImportOptions
from probekit.store.layout import model_slug
from probekit.tasks import Task

_BY_NAME = "name"
"""The source, in a manifest, of a model of which nothing is known but its name."""


@dataclass(frozen=True, kw_only=True)
class ImportedInfo(BackboneInfo):
    """The facts of a model whose states were imported.

    Attributes:
        apart: why a pass of the model does not make the same rows; None where it does.
    """

    apart: str | None


def named_info(model: str, n_blocks: int, dim: int) -> BackboneInfo:
    """Return the facts of a model of which nothing but name, depth and width is known."""
    identity = Identity(
        architecture="unknown",
        weights=digest({"name": model_slug(model)}),
        adapter=None,
        configuration={},
        word_tokenizer="",
        text_tokenizer="",
        token_types=False,
        max_length=0,
        random_init=None,
    )
    return BackboneInfo(
        name=model,
        source=_BY_NAME,
        revision=None,
        n_blocks=n_blocks,
        dim=dim,
        causal=False,
        final_norm=False,
        vocab_size=0,
        identity=identity,
    )


def settle_layers(
    sequences: Sequences, options: ImportOptions, info: BackboneInfo
) -> tuple[int, ...]:
    """Return the numbers of the states' layers, in their order.

    Raises:
        OptionError: they are not said, or do not fit.
        DataError: the states are of another width than the model's.
    """
    count, dim = sequences.shape.layers, sequences.shape.dim
    if dim != info.dim:
        raise DataError(
            f"{sequences.where}: the states are {dim} wide, but those of {info.name} are "
            f"{info.dim} wide. They are of another model, or have their axes in another order "
            "(layers_first)."
        )
    numbers, blocks = options.numbers(info.n_blocks), info.n_blocks
    suggested = {
        blocks + 1: f"{count} layers are as many as {info.name} has: give 0:{count} if these are "
        "all.",
        blocks: f"{count} layers are one fewer than {info.name} has: give 1:{count + 1} if the "
        f"embeddings are left out, 0:{count} if the last one is.",
    }.get(count, f"{info.name} has {blocks + 1} layers, 0 to {blocks}.")
    if numbers is None:
        raise OptionError(
            f"{sequences.where} has {count} layers. Give their numbers, counted as in "
            f"transformers' hidden_states, with --layer-ids. {suggested}"
        )
    if len(numbers) != count:
        raise OptionError(
            f"--layer-ids {','.join(map(str, numbers))} does not fit {sequences.where}, which has "
            f"{count} layers of {info.name} (its layers are 0, the embeddings, to {blocks}). Give "
            f"the number of each layer once. {suggested}"
        )
    return numbers


def ask_states(
    sequences: Sequences,
    matched: Matched,
    info: BackboneInfo,
    task: Task,
    options: ImportOptions,
    layer_ids: tuple[int, ...],
    inspection: Inspection | None,
) -> Request:
    """Settle what is stored of some states.

    Args:
        sequences: the states.
        matched: whose they are.
        info: the model's facts.
        task: the task.
        options: what the user says.
        layer_ids: the numbers of the states' layers.
        inspection: the model, where it is known.

    Raises:
        OptionError: an option means nothing here, one is missing, or layers or arrays are asked
            for that the states do not have.
    """
    layers = _chosen_layers(options, layer_ids, info)
    if inspection is not None:
        inspection.structure.check_layers(info.name, layers)
    raw = _is_raw(sequences, options, info, layers)
    asked = replace(
        options.stored(",".join(map(str, layers))),
        compute_dtype=str(sequences.shape.dtype).removeprefix("torch."),
        overlong="stride" if sequences.form == "words" else "truncate",
    )
    lacking = _lacking(sequences, matched, info, layers, task.kind)
    keep = choose_kept(task, asked, lacking)
    if not keep:
        reasons = "; ".join(dict.fromkeys(lacking.values()))
        raise OptionError(f"{sequences.where}: no array can be stored: {reasons}.")
    pooling: Pooling | None = choose_pooling(task, asked, info)
    if options.pooling == "auto" and sequences.form == "words":
        pooling = None
    elif options.pooling == "auto" and inspection is None:
        raise OptionError(
            f"it is not known which subwords make a word's row of {info.name}: give --pooling "
            "first, last or mean."
        )
    apart = {
        "nothing is known of the model but its name": inspection is None,
        "which subwords made the rows of words is not known": pooling is None,
        "the model read no special tokens": matched.special_tokens == "absent",
        "means leave special tokens out": "mean" in keep
        and (sequences.form != "token-ids" or matched.special_tokens == "stripped"),
        "the last layer is before the final norm": raw,
    }
    about: dict[str, Any] = {
        **vars(info),
        "final_norm": info.final_norm and not raw,
        "apart": "; ".join(why for why, holds in apart.items() if holds) or None,
    }
    return Request(
        info=ImportedInfo(**about),
        task=task,
        options=asked,
        keep=keep,
        pooling=pooling,
        imported={
            "producer": options.producer,
            "states": sequences.digest(list(dict.fromkeys(matched.sequence.tolist()))),
            "layer_ids": list(layer_ids),
            "form": sequences.form,
            "special_tokens": matched.special_tokens,
            "last_layer": "raw" if raw else None,
        },
    )


def _chosen_layers(
    options: ImportOptions, layer_ids: tuple[int, ...], info: BackboneInfo
) -> tuple[int, ...]:
    if options.layers == "all":
        return tuple(sorted(layer_ids))
    layers = parse_layers(options.layers, info.n_blocks)
    if missing := sorted(set(layers) - set(layer_ids)):
        raise OptionError(
            f"--layers {options.layers}: the states have no layer {missing[0]}, only "
            f"{','.join(map(str, sorted(layer_ids)))}."
        )
    return layers


def _is_raw(
    sequences: Sequences, options: ImportOptions, info: BackboneInfo, layers: tuple[int, ...]
) -> bool:
    """Say whether layer L is that before the final norm."""
    last = info.n_blocks
    if not info.final_norm or last not in layers:
        if options.last_layer is not None:
            why = f"layer {last} is not stored."
            if last in layers:
                why = f"{info.name} has no norm after its last block."
            raise OptionError(f"--last-layer {options.last_layer}: {why} Leave it out.")
        return False
    if options.last_layer is None and sequences.files is not None:
        raise OptionError(
            f"{sequences.where}: in transformers' hidden_states, layer {last} of {info.name} "
            "comes after the final norm, but vLLM writes it before the norm. Say which this is: "
            "--last-layer raw (as vLLM writes it) or normed; or leave it out: --layers "
            f"{','.join(str(layer) for layer in layers if layer != last) or 'OTHERS'}."
        )
    return options.last_layer == "raw"


def _lacking(
    sequences: Sequences,
    matched: Matched,
    info: BackboneInfo,
    layers: tuple[int, ...],
    kind: KindName,
) -> dict[str, str]:
    """Return what there is not beside the states, or of what they have no rows, and why."""
    lacking = {OUTPUT_HEAD: "an import reads no weights of the model"}
    if info.n_blocks not in layers and KINDS[kind].per != "text":
        lacking |= dict.fromkeys(LAST_ONLY, f"it is of layer {info.n_blocks}, which is not stored")
    if sequences.form == "words":
        lacking |= dict.fromkeys(LAST_ONLY, "rows are words, not subwords")
    if sequences.form != "token-ids":
        lacking |= dict.fromkeys(("cls", "last"), "rows are matched by words, not by tokens")
    if matched.special_tokens in ("absent", "stripped"):
        lacking |= dict.fromkeys(("cls", "last"), "there are no rows of special tokens")
    elif not matched.ended:
        lacking["last"] = "some sequences lack the special tokens of their end"
    return lacking
