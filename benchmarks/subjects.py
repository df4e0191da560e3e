"""The models and data that the benchmarks run on, and the options that all of them take."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from probekit.store.entry import Entry

MINILM, MPNET = "minilm-l6", "mpnet-base"
SMOLLM = "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf"
LARGE = "large-random"
"""Of roberta-large's shape, with random weights, for accelerators; made when first needed."""

DECODER = "decoder-8b-random"
"""The same of an 8B decoder's shape (Llama 3), with as many of its 32 blocks as fit on the GPU and
the disk."""

_LARGE_SHAPE = {
    "num_hidden_layers": 24,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
_DECODER_SHAPE = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
}

_BLOCK_BYTES = 436 * 10**6
"""Of a block in bfloat16."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks take."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--models", type=Path, default=Path("models"), help="folder of the models")
    made.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    made.add_argument("--work", type=Path, help="folder for entries; default: a temporary one")
    made.add_argument("--rounds", type=int, default=5, help="how often each side runs")
    made.add_argument("--device", default="cpu")
    made.add_argument("--json", type=Path, help="file to append the claims to")
    return made


def model_path(args: argparse.Namespace, name: str) -> str:
    """Return the path of a model that must be there, or can be made."""
    if name in (LARGE, DECODER) and not (args.models / name).exists():
        draw(name, _existing(args.models / MINILM, "--models"), args.models / name)
    return str(_existing(args.models / name, "--models"))


def draw(name: str, like: Path, folder: Path) -> None:
    """Save `LARGE`, a model of the same class as the one in ``like``, or `DECODER`, a Llama.

    Either has the tokenizer in ``like``.
    """
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = AutoConfig.from_pretrained(like, **_LARGE_SHAPE)
    if name == DECODER:
        size, longest = config.vocab_size, config.max_position_embeddings
        config = AutoConfig.for_model(
            "llama", vocab_size=size, max_position_embeddings=longest,
            num_hidden_layers=_fitting_blocks(folder.parent, device), **_DECODER_SHAPE,
        )  # fmt: skip
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    with torch.device(device):
        model = AutoModel.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(fresh)
    AutoTokenizer.from_pretrained(like).save_pretrained(fresh)
    fresh.rename(folder)


def _fitting_blocks(folder: Path, device: str) -> int:
    """Return how many blocks of a decoder take a quarter of the memory and of the disk at most."""
    import torch

    room = shutil.disk_usage(folder).free
    if device == "cuda":
        room = min(room, torch.cuda.mem_get_info()[0])
    return max(1, min(32, room // 4 // _BLOCK_BYTES))


def require(program: str, packages: Iterable[str]) -> None:
    """Exit if a package is missing; the top of a program says how to install those it needs."""
    for package in packages:
        try:
            version(package)
        except PackageNotFoundError:
            sys.exit(f"{package} is not installed: see the top of {Path(program).name}.")


def data_path(args: argparse.Namespace, name: str) -> Path:
    """Return the path of a data set that must be there."""
    return _existing(args.data / name, "--data")


def extract_conll(
    args: argparse.Namespace, cache: Path, model: str = MINILM, **asked: Any
) -> list[Entry]:
    """Extract the words of CoNLL-2003, as ``asked`` of `extract`; return the entries."""
    from probekit import extract  # imports transformers

    data = data_path(args, "conll2003")
    path = model_path(args, model)
    return extract(path, "conll", data=data, device=args.device, cache=cache, **asked)


@contextmanager
def work_folder(args: argparse.Namespace) -> Iterator[Path]:
    """Yield a folder for what a benchmark writes; a temporary one is deleted afterwards."""
    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
        yield args.work
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _existing(path: Path, option: str) -> Path:
    if not path.exists():
        sys.exit(f"{path} is not there; name its folder with {option}.")
    return path
