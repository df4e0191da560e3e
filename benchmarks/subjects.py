"""The models and data that the benchmarks run on, and the options that all of them take."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def _existing(path: Path, option: str) -> Path:
    if not path.exists():
        sys.exit(f"{path} is not there; name its folder with {option}.")
    return path
