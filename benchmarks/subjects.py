"""The models and data that the benchmarks run on, and the options that all of them take."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.nn import ModuleList

from probekit.backbone import Backbone
from probekit.extraction import ExtractOptions, open_session
from probekit.extraction.plan import Plan
from probekit.extraction.session import Session
from probekit.tasks import Split

MINILM, MPNET = "minilm-l6", "mpnet-base"
SMOLLM = "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf"


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
    """Return the path of a model that must be there."""
    return str(_existing(args.models / name, "--models"))


def data_path(args: argparse.Namespace, name: str) -> Path:
    """Return the path of a data set that must be there."""
    return _existing(args.data / name, "--data")


@contextmanager
def work_folder(args: argparse.Namespace) -> Iterator[Path]:
    """Yield a folder for what a benchmark writes; a temporary one is deleted afterwards."""
    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
        yield args.work
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def conll_session(
    args: argparse.Namespace,
    model: str,
    split: str,
    *,
    limit: int | None,
    cache: Path,
    compile: bool = False,
) -> tuple[Session, Split]:
    """Return a session that extracts CoNLL-2003's split again and again, its model not loaded."""
    session, (texts,) = open_session(
        model_path(args, model),
        "conll",
        data=data_path(args, "conll2003"),
        splits=[split],
        options=ExtractOptions(limit=limit),
        device=args.device,
        compile=compile,
        cache=cache,
        overwrite=True,
    )
    return session, texts


def needed_operations(backbone: Backbone, plan: Plan) -> float:
    """Return the arithmetic that the real subwords of a plan need.

    Two operations per weight of the blocks and subword, and 4 T^2 d per window of T subwords and
    block for attention.
    """
    blocks = next(m for m in backbone._model.modules() if isinstance(m, ModuleList))
    weights = sum(p.numel() for p in blocks.parameters() if p.ndim == 2)
    lengths = plan.encoded.window_lengths.astype(float)
    attention = 4.0 * (lengths**2).sum() * backbone.info.dim * backbone.info.n_blocks
    return float(2.0 * weights * lengths.sum() + attention)


def _existing(path: Path, option: str) -> Path:
    if not path.exists():
        sys.exit(f"{path} is not there; name its folder with {option}.")
    return path
