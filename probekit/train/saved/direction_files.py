"""Files of directions: NumPy's, safetensors, and what repeng and llama.cpp load."""

import json
import logging
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from probekit.base.registry import choose
from probekit.base.replacing import replacing
from probekit.errors import OptionError, StorageError, install_extra
from probekit.train.saved.directions import Directions

logger = logging.getLogger(__name__)

GGUF_ARCHITECTURE = "controlvector"
SUFFIXES = {"npz": ".npz", "safetensors": ".safetensors", "repeng": ".gguf"}
"""Of each format."""

MARKS = {"npz": "probekit".encode("utf-32-le"), "safetensors": b"probekit", "repeng": b"probekit"}
"""What every file of a format holds that is written here; NumPy keeps text in four bytes."""


def write_directions(
    found: Directions, form: str, path: str | Path, *, name: str | None = None
) -> Path:
    """Write directions to a file, which is whole or absent.

    Args:
        found: what `export` returned.
        form: ``npz`` or ``safetensors``: ``direction`` (layers, classes, dim), ``bias`` and
            ``layers`` in float32 and int64, with the names of the classes; or ``repeng``: one
            direction per layer, ``Directions.contrast``, in the GGUF file that repeng's
            ``ControlVector.import_gguf`` and llama.cpp's ``--control-vector`` read.
        path: of the file.
        name: of the class, for ``repeng``.

    Raises:
        UnknownNameError: there is no such format.
        OptionError: a class where all are written, or none where one is; nothing that repeng could
            add to a block; or a file of another suffix, which may be anybody's.
        StorageError: the file cannot be written.
    """
    write = choose("format", form, WRITERS)
    if name is not None and form != "repeng":
        raise OptionError(f"--class {name}: {form} holds all classes; leave it out.")
    target = Path(path)
    if target.suffix != SUFFIXES[form]:
        raise OptionError(f"-o {target}: a file of {form} is called *{SUFFIXES[form]}.")
    try:
        with replacing(target) as fresh:
            write(found, fresh, name)
    except OSError as error:
        raise StorageError(
            f"{target}: cannot be written ({error.strerror or error}). Choose another file with -o."
        ) from error
    return target


def about(directions: Directions) -> dict[str, Any]:
    """Return what directions are of, as files have it beside them."""
    saved = directions.saved
    return {
        "classes": list(directions.classes),
        "model": saved.model.get("name"),
        "task": saved.task,
        "label": saved.label,
        "head": saved.head["name"],
        "array": saved.features.array,
        "one_probe": directions.one_probe,
        "key": saved.key,
        "probekit": saved.probekit,
    }


def _arrays(directions: Directions) -> dict[str, np.ndarray]:
    return {
        "direction": directions.direction.contiguous().numpy(),
        "bias": directions.bias.contiguous().numpy(),
        "layers": np.asarray(directions.layers, np.int64),
    }


def _write_npz(directions: Directions, path: Path, name: str | None) -> None:
    words = {
        "classes": np.asarray(directions.classes),
        "about": np.asarray(json.dumps(about(directions))),
    }
    arrays: dict[str, Any] = {**_arrays(directions), **words}
    with path.open("wb") as file:  # a name alone would be given the suffix .npz
        np.savez(file, **arrays)


def _write_safetensors(directions: Directions, path: Path, name: str | None) -> None:
    metadata = {key: json.dumps(value) for key, value in about(directions).items()}
    save_file(_arrays(directions), path, metadata=metadata)


def _write_gguf(directions: Directions, path: Path, name: str | None) -> None:
    """Write a control vector: tensor ``direction.i`` is added to what block i gives, from 0 on.

    What block i gives is layer i + 1 here. Layer 0, the embeddings, is given by no block; the last
    layer of a model with a final norm is stored behind it, where no block adds.
    """
    # Layers 0 to 3 of a model of 3 blocks are direction.0 to direction.2 for layers 1 to 3, or
    # direction.0 and direction.1 where layer 3 is normed.
    if find_spec("gguf") is None:
        raise OptionError(
            "--as repeng writes a GGUF file and needs the package gguf, which is not installed. "
            + install_extra("gguf")
        )
    from gguf import GGUFWriter

    vectors = dict(zip(directions.layers, directions.contrast(name).numpy(), strict=True))
    model, n_blocks = directions.saved.model, directions.saved.features.n_blocks
    left_out = {0: "the embeddings"}
    if model.get("final_norm"):
        left_out[n_blocks] = "stored behind the final norm"
    for layer, why in left_out.items():
        if vectors.pop(layer, None) is not None:
            logger.info("left out layer %d (%s): no block's output to add to.", layer, why)
    if not vectors:
        raise OptionError(
            "--as repeng adds to the outputs of blocks, and this probe reads none: layer 0 is the "
            "embeddings, and the last layer of a model with a final norm is stored behind it. "
            "Train one on another layer, or export npz."
        )
    writer = GGUFWriter(path, GGUF_ARCHITECTURE)
    writer.add_string(f"{GGUF_ARCHITECTURE}.model_hint", model_type(model))
    writer.add_uint32(f"{GGUF_ARCHITECTURE}.layer_count", len(vectors))
    writer.add_author("probekit")
    for layer, vector in vectors.items():
        writer.add_tensor(f"direction.{layer - 1}", np.ascontiguousarray(vector, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def model_type(model: Mapping[str, Any]) -> str:
    """Return a backbone's ``model_type``, which repeng compares; ``unknown`` where none is."""
    identity = model.get("identity")
    configuration = identity.get("configuration") if isinstance(identity, Mapping) else None
    return str((configuration or {}).get("model_type", "unknown"))


WRITERS: Mapping[str, Callable[[Directions, Path, str | None], None]] = {
    "npz": _write_npz,
    "safetensors": _write_safetensors,
    "repeng": _write_gguf,
}
