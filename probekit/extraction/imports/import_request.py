"""What an import is asked for: which layers and rows of the states become an entry, and its key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from probekit.backbone import BackboneInfo, Inspection
from probekit.backbone.facts import Identity
from probekit.base.fingerprint import digest
from probekit.base.kinds import ARRAYS, KINDS, LAST_ONLY
from probekit.base.layers import parse_layers
from probekit.data.pooling import Pooling
from probekit.errors import OptionError
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.matching import Matched
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.request_options import ExtractOptions
from probekit.store.layout import model_slug
from probekit.store.manifest import FORMAT_VERSION
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

    @classmethod
    def of(cls, info: BackboneInfo, *, raw: bool, apart: Iterable[str]) -> "ImportedInfo":
        """Return the facts of a model, with reasons why its own pass would make other rows."""
        final_norm = info.final_norm and not raw
        about = {**vars(info), "final_norm": final_norm, "apart": "; ".join(apart) or None}
        return cls(**about)


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What is asked of states for one split; `Asked` of extraction.

    Attributes:
        info: the model's facts.
        task: the task.
        options: how rows are stored.
        keep: the arrays that are stored.
        pooling: which subwords make a word's row; None where rows are words, and nobody says it.
        overlong: what was done with long texts.
        compute_dtype: of the states.
        imported: what else tells the states from others.
        masking: None: nothing is predicted.
    """

    info: BackboneInfo
    task: Task
    options: ExtractOptions
    keep: tuple[str, ...]
    pooling: Pooling | None
    overlong: str
    compute_dtype: str
    imported: Mapping[str, Any]
    masking: None = field(default=None, init=False)

    def to_json(self, text_fingerprint: str) -> dict[str, Any]:
        """Return what the key of the split's entry hashes; ``imported`` is in no other's."""
        return {
            "format_version": FORMAT_VERSION,
            "model": self.info.identity.to_json(),
            "text": text_fingerprint,
            "format": self.options.format,
            "dtype": self.options.dtype,
            "compute_dtype": self.compute_dtype,
            "overlong": self.overlong,
            "max_length": None,
            "keep": sorted(self.keep),
            "layers": list(parse_layers(self.options.layers, self.info.n_blocks)),
            "pooling": self.pooling,
            "masking": self.masking,
            "imported": dict(self.imported),
        }


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


def make_request(
    sequences: Sequences,
    matched: Matched,
    info: BackboneInfo,
    task: Task,
    options: ImportOptions,
    layer_ids: tuple[int, ...],
    inspection: Inspection | None,
) -> ImportRequest:
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
    layers = _chosen(options, layer_ids, info)
    if inspection is not None:
        inspection.structure.check_layers(info.name, layers)
    raw = _is_raw(sequences, options, info, layers)
    keep = _kept(sequences, matched, info, task, options, layers)
    pooling = _pooling(sequences, info, task, options, named=inspection is None)
    apart = _apart(sequences, matched, keep, pooling, raw=raw, named=inspection is None)
    used = list(dict.fromkeys(matched.sequence.tolist()))
    said = {
        "producer": options.producer,
        "states": sequences.digest(used),
        "layer_ids": list(layer_ids),
        "form": sequences.form,
        "special_tokens": matched.special_tokens,
        "last_layer": "raw" if raw else None,
    }
    return ImportRequest(
        info=ImportedInfo.of(info, raw=raw, apart=apart),
        task=task,
        options=options.stored(",".join(map(str, layers))),
        keep=keep,
        pooling=pooling,
        overlong="stride" if sequences.form == "words" else "truncate",
        compute_dtype=str(sequences.shape.dtype).removeprefix("torch."),
        imported=said,
    )


def _apart(
    sequences: Sequences,
    matched: Matched,
    keep: tuple[str, ...],
    pooling: Pooling | None,
    *,
    raw: bool,
    named: bool,
) -> list[str]:
    """Return why a pass of the model would make other rows than these."""
    reasons = {
        "nothing is known of the model but its name": named,
        "which subwords made the rows of words is not known": pooling is None,
        "the model read no special tokens": matched.special_tokens == "absent",
        "means leave special tokens out": "mean" in keep
        and (sequences.form != "token-ids" or matched.special_tokens == "stripped"),
        "the last layer is before the final norm": raw,
    }
    return [reason for reason, holds in reasons.items() if holds]


def _chosen(
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
            raise OptionError(
                f"--last-layer {options.last_layer}: "
                + (
                    f"layer {last} is not stored."
                    if last not in layers
                    else f"{info.name} has no norm after its last block."
                )
                + " Leave it out."
            )
        return False
    if options.last_layer is None and sequences.of_requests:
        raise OptionError(
            f"{sequences.where}: layer {last} of {info.name} is after its final norm in "
            "transformers' hidden_states, and vLLM writes it before. Say which it is: --last-layer "
            f"raw (as vLLM writes it) or normed; or leave it out: --layers "
            f"{','.join(str(layer) for layer in layers if layer != last) or 'OTHERS'}."
        )
    return options.last_layer == "raw"


def _kept(
    sequences: Sequences,
    matched: Matched,
    info: BackboneInfo,
    task: Task,
    options: ImportOptions,
    layers: tuple[int, ...],
) -> tuple[str, ...]:
    """Return the arrays that are stored, in the order of an entry."""
    lacking = _lacking(sequences, matched, info, layers)
    possible = (*KINDS[task.kind].possible, "tokens")
    if options.keep is not None:
        for name in options.keep:
            if name not in possible:
                raise OptionError(
                    f"--keep {name}: the text of {task.name} ({task.kind}) has no such rows, or "
                    f"imports have none. Choose from: {', '.join(possible)}."
                )
            if name in lacking:
                raise OptionError(f"--keep {name}: {lacking[name]}. Leave it out.")
        return tuple(name for name in ARRAYS if name in options.keep)
    kinds = {task.kind, *task.kinds.values()}
    needed = {name for kind in kinds for name in KINDS[kind].needed}
    kept = tuple(name for name in ARRAYS if name in needed and name not in lacking)
    if not kept:
        reasons = "; ".join(dict.fromkeys(lacking.values()))
        raise OptionError(f"{sequences.where}: no array can be kept: {reasons}.")
    return kept


def _lacking(
    sequences: Sequences, matched: Matched, info: BackboneInfo, layers: tuple[int, ...]
) -> dict[str, str]:
    """Return the arrays that the states have no rows for, and why."""
    lacking: dict[str, str] = {}
    if info.n_blocks not in layers:
        lacking |= dict.fromkeys(LAST_ONLY, f"it is of layer {info.n_blocks}, which is not stored")
    if sequences.form == "words":
        lacking |= dict.fromkeys(LAST_ONLY, "rows are words, not subwords")
    if sequences.form != "token-ids":
        lacking |= dict.fromkeys(("cls", "last"), "rows are told by words, not by tokens")
    if matched.special_tokens in ("absent", "stripped"):
        lacking |= dict.fromkeys(("cls", "last"), "there are no rows of special tokens")
    elif not matched.ended:
        lacking["last"] = "some sequences lack the special tokens of their end"
    return lacking


def _pooling(
    sequences: Sequences, info: BackboneInfo, task: Task, options: ImportOptions, *, named: bool
) -> Pooling | None:
    if options.pooling != "auto":
        if KINDS[task.kind].per != "word":
            raise OptionError(
                f"--pooling says which subwords make a word's row, and the texts of {task.name} "
                "are not split into words. Leave it out."
            )
        return cast(Pooling, options.pooling)
    if sequences.form == "words":
        return None
    if named:
        raise OptionError(
            f"which subwords make a word's row is not known of {info.name}: give --pooling first, "
            "last or mean."
        )
    return "last" if info.causal else "first"
