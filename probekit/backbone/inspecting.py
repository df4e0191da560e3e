"""Inspect a model without reading its weights, and find one again that something was made with."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import transformers
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from probekit.backbone import architecture, facts
from probekit.backbone.checkpoint import Checkpoint, find_checkpoint, local_path
from probekit.backbone.forward import takes
from probekit.backbone.given_model import GivenModel
from probekit.backbone.model_files import (
    code_digest,
    keep_words_apart,
    load_config,
    read_tokenizer,
    read_with,
)
from probekit.backbone.placement import check_quantizable
from probekit.backbone.saved_run import SavedRun
from probekit.backbone.structure import embedding_rows, read_structure, shortened
from probekit.errors import BackboneError, HubError, MissingFileError, OptionError, reason_of

logger = logging.getLogger(__name__)

_PER_BYTE, _FREE_WEIGHTS = 8, 2**24
"""Most weights of a model: so many for each byte of its files, and so many more. Packed ones take a
bit and a half each."""


UNLIMITED = 100_000_000
"""A tokenizer's ``model_max_length`` above this (1e30 is usual) means that none was set."""


DEFAULT_LENGTH = 2048
"""The longest input of a model that names no limit (ALiBi, state-space models)."""


def inspect_backbone(
    model: str | GivenModel,
    *,
    revision: str | None = None,
    random_init: int | None = None,
    part: str | None = None,
    quantize: str | None = None,
    trust_remote_code: bool = False,
) -> facts.Inspection:
    """Find a model, check that it can serve, and learn its facts and identity.

    The weights are not loaded. Those of a Hub repository are not even downloaded, because the Hub
    lists their sha256; local ones, and the tensors of a model in memory, are read once, to hash
    them.

    Args:
        model: Hub id, local folder, or ``.gguf`` file; or a model in memory; or the folder of a
            saved run that trained a model.
        revision: branch, tag or commit of a Hub repository.
        random_init: seed of weights to be drawn in place of the model's own, of which none need
            be there.
        part: ``encoder``: the half of an encoder-decoder that is read.
        quantize: ``8bit`` or ``4bit``: quantize its linear layers as they are read.
        trust_remote_code: run the model's own code, which may do anything on this machine.

    Raises:
        MissingFileError: a path that does not exist.
        HubError: repository missing, gated or unreachable.
        BackboneError: the model cannot serve (no fast tokenizer, no weights), or what quantizes it
            is not installed.
        OptionError: the name or revision makes no sense, or the half of an encoder-decoder is not
            named, or the model cannot be quantized.
    """
    if isinstance(model, GivenModel):
        if trust_remote_code:
            raise OptionError(
                "--trust-remote-code is for code in a model's folder, and this model is in "
                "memory. Leave it out."
            )
        return _inspect(model, model.config, random_init, part, quantize)
    if (run := SavedRun.at(model)) is not None:
        asked = {"revision": revision, "random_init": random_init, "part": part}
        asked |= {"quantize": quantize}
        return inspect_run(run, asked=asked, trust_remote_code=trust_remote_code)
    checkpoint = find_checkpoint(
        model, revision=revision, weights=random_init is None, trusted=trust_remote_code
    )
    return _inspect(checkpoint, load_config(checkpoint), random_init, part, quantize)


def part_to_name(model: str) -> str | None:
    """Return the part without which a model cannot be inspected; None of one that is read whole.

    Raises:
        ProbekitError: as ``inspect_backbone``, where the configuration cannot be read.
    """
    config = load_config(find_checkpoint(model, weights=False))
    return architecture.ENCODER if architecture.saved_whole(config) else None


def _inspect(
    checkpoint: Checkpoint | GivenModel,
    whole: PretrainedConfig,
    random_init: int | None,
    part: str | None,
    quantize: str | None,
) -> facts.Inspection:
    """Learn the facts and the identity of a model that was found."""
    model = checkpoint.name
    if quantize is not None:
        check_quantizable(checkpoint, whole, f"--quantize {quantize}")
    config = architecture.config_to_read(model, whole, part)
    with architecture.building(model, config), architecture.without_memory():
        skeleton = architecture.build_model(config)
    rows = embedding_rows(model, skeleton)
    if random_init is None:  # before anything is built of real memory
        _check_held(checkpoint, skeleton)
    if isinstance(checkpoint, GivenModel):
        checkpoint.check(skeleton, rows)
    structure = read_structure(model, config)
    tokenizer = read_tokenizer(checkpoint)
    of_tokenizer: dict[str, Any] = {
        "text_tokenizer": facts.tokenizer_digest(tokenizer),
        # the tokenizer makes them, and the model tells at least two of them apart
        "token_types": "token_type_ids" in tokenizer.model_input_names
        and takes(type(skeleton), "token_type_ids")
        and (skeleton.config.to_dict().get("type_vocab_size") or 0) > 1,
        "max_length": longest_input(model, tokenizer, skeleton, config),
    }
    keep_words_apart(tokenizer, model)
    identity = facts.Identity(
        architecture=type(skeleton).__name__,
        configuration=facts.computing_options(config),
        word_tokenizer=facts.tokenizer_digest(tokenizer),
        random_init=random_init,
        part=part,
        quantize=quantize,
        **of_tokenizer,
        **_digests(checkpoint, config, random_init),
    )
    info = facts.BackboneInfo(
        name=model,
        source=checkpoint.kind,
        revision=checkpoint.revision,
        n_blocks=structure.n_blocks,
        dim=structure.dim,
        causal=structure.causal,
        final_norm=structure.final_norm is not None,
        vocab_size=rows,
        identity=identity,
    )
    return facts.Inspection(
        info=info,
        tokenizer=tokenizer,
        config=config,
        whole=whole,
        checkpoint=checkpoint,
        structure=structure,
        n_values=sum(t.numel() for t in (*skeleton.parameters(), *skeleton.buffers())),
    )


def _digests(
    checkpoint: Checkpoint | GivenModel, config: PretrainedConfig, random_init: int | None
) -> dict[str, Any]:
    """Return the digests of weights, adapter and code; of weights that are drawn none are read."""
    digests: dict[str, Any] = {"adapter": None}
    if isinstance(checkpoint, Checkpoint):
        checkpoint.fetch(listed=False)
        digests["adapter"] = facts.files_digest(checkpoint.adapter) if checkpoint.adapter else None
        digests["code"] = code_digest(checkpoint.folder) if checkpoint.trusted else None
    if random_init is not None:
        digests["weights"] = facts.random_digest(config, random_init)
    elif isinstance(checkpoint, Checkpoint):
        digests["weights"] = facts.files_digest(checkpoint.weights)
    else:
        digests["weights"] = checkpoint.digest()
    return digests


def _check_held(checkpoint: Checkpoint | GivenModel, skeleton: PreTrainedModel) -> None:
    """Check that files can hold the weights that a configuration asks for.

    Raises:
        BackboneError: they are far too small.
    """
    files = [] if isinstance(checkpoint, GivenModel) else [file.path for file in checkpoint.weights]
    if not files or not all(file.is_file() for file in files):  # in memory, or on the Hub
        return
    held = sum(file.stat().st_size for file in files)
    n_values = sum(value.numel() for value in skeleton.parameters())
    if n_values > _PER_BYTE * held + _FREE_WEIGHTS:
        raise BackboneError(
            f"model {checkpoint.name!r}: its configuration needs {n_values:,} weights, but its "
            f"weight files have only {held:,} bytes. They belong to another model or version."
        )


def longest_input(
    name: str, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel, config: PretrainedConfig
) -> int:
    """Return the most subwords of a text that a tokenizer allows and a model has positions for.

    RoBERTa and its kin count from the padding id, so 514 rows of position embeddings number 512
    positions. I-BERT's embeddings are of a class of its own.
    """
    counted = [
        len(module.weight) - module.padding_idx - 1
        for part, module in model.named_modules()
        if "position" in part and isinstance(getattr(module, "padding_idx", None), int)
    ]
    given = config.to_dict()
    named = (
        *("max_position_embeddings", "max_seq_len", "seq_length"),
        "max_encoder_position_embeddings",  # LED
    )
    limits = [given.get(field) or getattr(config, field, None) for field in named]
    positions = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    known = [tokenizer.model_max_length, *(counted or positions)[:1]]
    known = [int(n) for n in known if isinstance(n, int | float) and n < UNLIMITED]
    if not known:
        logger.info(
            "%s: the model states no maximum input length; %d subwords are used.",
            name,
            DEFAULT_LENGTH,
        )
    return min(known, default=DEFAULT_LENGTH)


_AGAIN = (
    "Give it again with model=MODEL, tokenizer=TOKENIZER in Python. For the command line, save "
    "both with save_pretrained and give --model FOLDER."
)


_MOVED = "If it has moved, give its new path with --model."


def find_again(
    about: Mapping[str, Any],
    *,
    model: str | GivenModel | None = None,
    made: str,
    remedy: str | None = None,
    trust_remote_code: bool = False,
) -> facts.Inspection:
    """Inspect the backbone that ``about`` describes, and prove that it is the same.

    Errors are those of `load_again`.

    Args:
        about: as there.
        model: as there.
        made: as there.
        trust_remote_code: as there.
        remedy: what to do where it is another model, or none is there; None is to give --model.
    """
    expected, name, source = facts.Identity(**about["identity"]), about["name"], about.get("source")
    if apart := about.get("apart"):
        raise BackboneError(
            f"{made} was made from imported states of {name!r}, and running the model gives "
            f"different ones: {apart}. Extract the entry with probekit instead."
        )
    how: dict[str, Any] = {
        "random_init": expected.random_init,
        "part": expected.part,
        "quantize": expected.quantize,
        "trust_remote_code": trust_remote_code,
    }
    if model is None:
        if source == "memory":
            raise MissingFileError(
                f"model {name!r} was in memory when {made} was made. {remedy or _AGAIN}"
            )
        if source not in (None, "hub") and local_path(name) is None:
            # not looked for on the Hub: 'models/bert' would pass for a repository
            raise MissingFileError(f"model {name!r}: no such file or folder. {remedy or _MOVED}")
        try:
            inspection = inspect_backbone(name, revision=about["revision"], **how)
        except (MissingFileError, HubError) as error:
            raise type(error)(f"{error} {remedy or _MOVED}") from error
    elif isinstance(model, str) and source == "memory" and expected.random_init is None:
        inspection = inspect_backbone(read_saved(model), **how)
    else:
        inspection = inspect_backbone(model, **how)
    if differences := expected.differences(inspection.info.identity):
        hint = ""
        if isinstance(model, GivenModel) and source != "memory":
            hint = " A model in memory is identified by its tensors, a model on disk by its files."
        advice = remedy or "Give the right model with --model."
        raise BackboneError(
            f"model {inspection.info.name!r} is not the one that {made} was made with "
            f"({name!r}): {'; '.join(differences)}.{hint} {advice}"
        )
    return inspection


def read_saved(model: str) -> GivenModel:
    """Load what ``save_pretrained`` wrote, as the class and in the dtypes that it was saved with.

    Its tensors are then those of the model in memory, by which that one is known.

    Args:
        model: where it lies.

    Raises:
        BackboneError: it cannot be loaded, or can be no backbone.
        MissingFileError: no model lies there.
    """
    checkpoint = find_checkpoint(model)
    checkpoint.fetch()
    config = load_config(checkpoint)
    saved = next(iter(config.architectures or ()), "")
    kind = getattr(transformers, saved) if hasattr(transformers, saved) else None
    try:
        whole = read_with(
            kind or architecture.backbone_classes(config)[0], checkpoint, dtype="auto"
        )
    except Exception as error:  # damaged files raise whatever their reader raises
        raise BackboneError(
            f"model {model!r}: its weights in {checkpoint.folder} cannot be loaded "
            f"({reason_of(error)}). Save the model again."
        ) from error
    return GivenModel.of(whole.eval(), read_tokenizer(checkpoint), model)


def inspect_run(
    run: SavedRun, *, asked: Mapping[str, Any], trust_remote_code: bool
) -> facts.Inspection:
    """Inspect the model of a saved run; see ``inspect_backbone``.

    Args:
        run: the saved run.
        asked: options that make another model of one, by name; they are the base's, and may be
            said again.
        trust_remote_code: run the code of the base model.

    Raises:
        OptionError: one of them is not what the base was.
        BackboneError: another model lies where the base was.
        MissingFileError: none does.
    """
    known = run.base["identity"]
    for name, value in asked.items():
        if value is not None and value != known.get(name):
            raise OptionError(
                f"--{name.replace('_', '-')} {value}: the model of a saved run ({run.name}) runs "
                "as it was trained. Leave the option out."
            )
    base = find_again(
        run.base,
        made=f"the saved run {run.name}",
        remedy=f"A whole model is saved there: give {run.folder} as MODEL."
        if run.packaging.whole
        else "The run needs its base model at the same path (a relative path starts at the "
        "folder in which the run was started). If the model has moved, `probekit merge "
        f"{run.name} FOLDER --model PATH` writes a whole model from lora, bitfit and "
        "diff-prune runs.",
        trust_remote_code=trust_remote_code,
    )
    structure = shortened(base.structure, run.deepest)
    info = replace(
        base.info,
        name=run.name,
        source="run",
        revision=None,
        base=base.info.name,
        n_blocks=structure.n_blocks,
        final_norm=structure.final_norm is not None,
        identity=replace(base.info.identity, method=run.method, tuned=run.digest),
    )
    tuned = facts.TunedValues(run=run, whole=base.structure)
    inspection = replace(base, info=info, structure=structure, tuned=tuned)
    return inspection.with_room(run.tuning)
