"""What other programs get of a saved run: its model by itself, and the card of both for the Hub."""

import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from probekit.backbone import load_again, tuned_backbone
from probekit.backbone.saved_run import SavedRun
from probekit.base.markup import CARD, card_table, card_text, is_place, written_card
from probekit.base.registry import PathName
from probekit.base.replacing import put, replacing, workshop
from probekit.errors import MissingFileError, OptionError, StorageError, reason_of
from probekit.metrics import scale_of
from probekit.results.summaries.wording import metric_text
from probekit.train.live.live_model import trained_values
from probekit.train.saved.folder import SavedHead, read_saved
from probekit.tuning.packaging import BACKBONE_FOLDER, PACKAGINGS, WholeModel

_LICENCE = """\
What was trained may be bound by the licences of the base model and the data, and probekit \
knows neither: whoever publishes this must check that both allow it, and fill in \
`license` above. `config.json` names the labels, and the model as it was typed."""

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")

_OPTIONS = ("shots", "fraction", "seed", "fit", "epochs", "batch_size", "lr", "select", "l2")
"""Options that the card tells; config.json has all of them."""


def write_model_card(folder: PathName) -> Path:
    """Write the card of a saved run into its folder; what its owner wrote around it stays.

    Args:
        folder: of a saved head, with what was trained of its model or without.

    Returns:
        the card, ``README.md``.

    Raises:
        MissingFileError: the folder holds no saved head.
        RecordError: the head is damaged.
        StorageError: the card cannot be written.
    """
    path = Path(folder) / CARD
    saved, _ = read_saved(Path(folder))
    try:
        before = path.read_text("utf-8") if path.exists() else None
        with replacing(path) as fresh:
            fresh.write_text(model_card(saved, before), "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path}: cannot write the card ({error}).") from error
    return path


def model_card(saved: SavedHead, before: str | None = None) -> str:
    """Return the card of a saved run.

    Args:
        saved: what is known of it.
        before: the card that it has.
    """
    from huggingface_hub import ModelCardData

    base: dict[str, Any] = {}
    if named := _hub_id(saved):
        base = {"base_model": named}
        if saved.backbone is not None:
            base["base_model_relation"] = "adapter" if saved.backbone == "adapter" else "finetune"
    data = ModelCardData(
        model_name=_title(saved),
        library_name="probekit",
        license="unknown",
        tags=["probekit", str(saved.head["name"]), *_method(saved)],
        **base,
    )
    return written_card(_section(saved), before, str(data.to_yaml()))


def _section(saved: SavedHead) -> str:
    """Return all between the marks."""
    scale = scale_of(saved.metric)
    by_split = {"dev": saved.eval_score, "test": saved.test_score}
    scored = [[name, scale.text(score)] for name, score in by_split.items() if score is not None]
    about = card_table(["", ""], [[name, text] for name, text in _about(saved).items()])
    scores = card_table(["split", metric_text(saved.metric)], scored)
    model = _code(_name(str(saved.model["name"])))
    what = f" on the frozen layers of {model}"
    for method in _method(saved):
        what = f", and {model} trained with it ({_code(method)})"
    return f"""\
# {card_text(_title(saved))}

A `probekit` head{what}.

{about}

## Scores

{scores}

One run. If dev selected the checkpoint or the L2 strength, its score is the best of several.

## Load it

{_loading(saved)}

## Licence

{_LICENCE}"""


def _about(saved: SavedHead) -> dict[str, str]:
    """Return the table of what it is."""
    identity, revision = saved.model.get("identity", {}), saved.model.get("revision")
    model = _name(str(saved.model["name"]))
    return {
        "base model": f"{model}, revision {revision}" if revision else model,
        "its weights": str(identity.get("weights", "unknown")),
        "task": ", ".join(filter(None, [_name(saved.task), saved.label])),
        "method": ", ".join(_method(saved)) or "nothing of the model",
        "head": f"{saved.head['name']}, layers {', '.join(map(str, saved.layers))}",
        "decoder": str(saved.decoder["name"]),
        "normalization": str(saved.normalization["name"]),
        "options": ", ".join(
            f"{name.replace('_', ' ')} {saved.options[name]}"
            for name in _OPTIONS
            if saved.options.get(name) is not None
        ),
        "trained values": f"{saved.n_params:,}",
        "probekit": saved.probekit,
    }


def _loading(saved: SavedHead) -> str:
    """Return how to load it: all of it with probekit, the model alone with other programs."""
    base = _hub_id(saved) or "BASE_MODEL"
    steps = f"""\
```python
import probekit

probekit.predict("FOLDER", texts)  # model="{base}", if it has moved
```"""
    folder, load = f"FOLDER/{BACKBONE_FOLDER}", "AutoModel.from_pretrained"
    if saved.backbone == "adapter":
        alone = f'peft.PeftModel.from_pretrained({load}("{base}"), "{folder}")'
        steps += f"\n\nThe model without the head: `{alone}`."
    elif saved.backbone == "checkpoint":
        steps += f'\n\nThe model without the head: `{load}("{folder}")`.'
    elif saved.backbone is not None:
        file = f"{folder}/{PACKAGINGS[saved.backbone].file}"
        steps += f"\n\n`{file}` holds the trained values by their names in the model."
    return steps


def _method(saved: SavedHead) -> list[str]:
    """Return what trained the model, if anything did."""
    return [] if saved.backbone is None else [str(saved.options["method"])]


def _title(saved: SavedHead) -> str:
    """Return ``minilm-l6, lora, p32 on conll2003 ner``."""
    parts = [_name(str(saved.model["name"])), *_method(saved), str(saved.head["name"])]
    return f"{', '.join(parts)} on {' '.join(filter(None, [_name(saved.task), saved.label]))}"


def _name(text: str) -> str:
    """Return a name; of a path on a disk its end."""
    return text.rstrip("/").rpartition("/")[2] if is_place(text) else text


def _hub_id(saved: SavedHead) -> str | None:
    """Return what the Hub calls the model; None of one that is from elsewhere."""
    name = str(saved.model["name"])
    return name if saved.model.get("source") == "hub" and _HUB_ID.fullmatch(name) else None


def _code(text: str) -> str:
    """Return a text, which may be a stranger's, as code within a line."""
    return f"`{' '.join(text.replace('`', '').split())}`"


def merge_run(
    run: PathName,
    folder: PathName,
    *,
    model: PathName | None = None,
    trust_remote_code: bool = False,
) -> Path:
    """Write the model that a saved run trained as one that ``AutoModel.from_pretrained`` loads.

    What ``lora``, ``bitfit`` and ``diff-prune`` trained is added to the values of the base model,
    in float32; a model that was cut stays so. The head is not part of it.

    Args:
        run: folder of a saved run.
        folder: of the model; a new or an empty one.
        model: where the base model is now; ``None`` is where it was.
        trust_remote_code: run the code of the base model.

    Returns:
        the folder.

    Raises:
        MissingFileError: no saved run lies there, or not the model that it trained.
        OptionError: its method leaves no such model; the model is whole already; or the folder
            holds something.
        BackboneError: the run trained nothing of its model, or another one lies where it was.
        RecordError: the trained values are damaged.
        StorageError: the model cannot be written.
    """
    saved, target = SavedRun.at(run), Path(folder)
    if saved is None:
        raise MissingFileError(
            f"{run}: there is no saved run. `probekit train --method METHOD --save DIR` writes one."
        )
    if saved.packaging.whole:
        raise OptionError(f"{run} has a whole model already: {saved.folder}.")
    if saved.tuning.stays_apart:
        raise OptionError(f"--method {saved.tuning.name}: {saved.tuning.stays_apart}")
    inside = target.resolve().is_relative_to(saved.folder.resolve())
    if inside or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise OptionError(f"{target} already exists. Give a new folder.")
    base = load_again(
        saved.base,
        model=None if model is None else str(model),
        device="cpu",
        compute_dtype="float32",
        made=f"the saved run {run}",
        trust_remote_code=trust_remote_code,
        learns=True,
    )
    backbone = tuned_backbone(base, saved)
    saved.tuning.merge(backbone.model)
    try:
        with workshop(target.parent) as fresh:
            made = fresh / target.name
            made.mkdir()
            WholeModel().write(made, trained_values(backbone, ()))
            put(made, target)
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"{target}: cannot write the model ({reason_of(error)}). Make room, or give another "
            "FOLDER."
        ) from error
    return target
