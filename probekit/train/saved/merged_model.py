"""The model that a run trained as a model by itself, for programs that know nothing of the run."""

from os import PathLike
from pathlib import Path

from safetensors import SafetensorError

from probekit.backbone import load_again, tuned_backbone
from probekit.backbone.saved_run import SavedRun
from probekit.base.replacing import put, workshop
from probekit.errors import MissingFileError, OptionError, StorageError, reason_of
from probekit.train.live.live_model import trained_values
from probekit.tuning.packaging import WholeModel


def merge_run(
    run: str | PathLike[str],
    folder: str | PathLike[str],
    *,
    model: str | PathLike[str] | None = None,
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
