r"""Claim 47: reading an epoch from a Zarr entry against other ways to keep rows on a disk.

minilm-l6 on CoNLL-2003 train, all layers of every row once, as `reading.py` reads them: in the
order of training, in large runs, from the page cache, into memory. numpy's memory map, safetensors,
tensorstore and zarr-python take the same rows in the same runs, the latter two from the entry's own
files. Lance and litdata have rows of their own format: Lance takes the same ones, litdata deals out
chunks in its own shuffled order.

    pip install --no-deps pylance==14.0.2 litdata==0.2.76 tensorstore==0.1.86 ml-dtypes==0.6.0 \
        lance-namespace==0.13.0 lance-namespace-urllib3-client==0.13.0 lightning-utilities==0.15.3
    python benchmarks/reading_rivals.py --models MODELS --data DATA
"""

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import zarr
from measure import Claim, alternate, at_least, report, timed
from reading import AIM, plain_copy, read_entry, read_map, training_groups
from safetensors import safe_open
from safetensors.numpy import save_file
from subjects import MINILM, extract_conll, parser, require, work_folder

from probekit import Location, open_features

BATCH = 4096
"""Rows at a time of litdata's loader; the others read runs."""

Groups = Sequence[torch.Tensor]


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    require(__file__, ("pylance", "litdata", "tensorstore"))
    with work_folder(args) as folder:
        report(measure(args, folder), args)


def measure(args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return a claim for every other way."""
    cache = folder / "cache"
    extract_conll(args, cache, splits=["train"])
    view = open_features(MINILM, "conll", None, Location(cache=cache)).view("train")
    layers, groups = view.array.layers, list(training_groups(view))
    mapped = plain_copy(view, folder / "plain.npy")
    stored = next(cache.glob(f"{MINILM}/conll/train-*/features.zarr/words"))
    rows = mapped.permute(1, 0, 2).contiguous().numpy()
    in_files(rows, folder)
    sides = {
        "entry": timed(lambda: read_entry(view, layers, groups)),
        "numpy memory map": timed(lambda: read_map(mapped, groups)),
        "safetensors": timed(lambda: read_safetensors(folder / "rows.safetensors", groups)),
        "zarr-python": timed(lambda: read_zarr(stored, groups)),
        "tensorstore": timed(lambda: read_tensorstore(stored, groups)),
        "Lance": timed(lambda: read_lance(folder / "rows.lance", groups, rows.shape[1:])),
        "litdata": timed(lambda: read_litdata(folder / "rows.litdata", len(rows))),
    }
    timings = alternate(sides, args.rounds)
    packages = {"numpy memory map": "numpy", "zarr-python": "zarr", "Lance": "pylance"}
    entry = timings.median("entry")
    claims = []
    for name in [*sides][1:]:
        ratio, package = timings.ratio(name, "entry"), packages.get(name, name.lower())
        claims.append(
            at_least(
                47,
                f"reading all {len(layers)} layers of an entry against {name}, {MINILM}",
                ratio,
                AIM,
                f"{rows.nbytes / 2**20:,.0f} MiB: {entry:.2f} s against "
                f"{timings.median(name):.2f} s, version {version(package)}",
            )
        )
    return claims


def in_files(rows: np.ndarray, folder: Path) -> None:
    """Write rows (rows, layers, D) as other packages keep them."""
    import lance
    import litdata

    layers = {str(n): np.ascontiguousarray(rows[:, n]) for n in range(rows.shape[1])}
    save_file(layers, folder / "rows.safetensors")
    width = rows[0].size
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), width)
    lance.write_dataset(pa.table({"row": column}), folder / "rows.lance", mode="overwrite")
    litdata.optimize(
        partial(row_of, folder / "plain.npy"),
        list(range(len(rows))),
        str(folder / "rows.litdata"),
        chunk_bytes="64MB",
        num_workers=1,
        mode="overwrite",
    )


def row_of(file: Path, number: int) -> torch.Tensor:
    """Return all layers of a row of the plain copy."""
    return torch.from_numpy(np.load(file, mmap_mode="c")[:, number].copy())


def read_safetensors(file: Path, groups: Groups) -> None:
    """Read all layers of all rows, layer by layer, mapped by the library."""
    with safe_open(file, "pt") as tensors:
        layers = [tensors.get_tensor(name) for name in tensors.keys()]  # noqa: SIM118
        for group in groups:
            for layer in layers:
                layer.index_select(0, group)


def read_zarr(folder: Path, groups: Groups) -> None:
    """Read all layers of all rows with zarr-python."""
    array = zarr.open_array(folder, mode="r")
    for group in groups:
        array.oindex[group.numpy(), slice(None), slice(None)]


def read_tensorstore(folder: Path, groups: Groups) -> None:
    """Read all layers of all rows with tensorstore."""
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/"}}
    array = tensorstore.open(spec, read=True).result()
    for group in groups:
        array[group.numpy()].read().result()


def read_lance(folder: Path, groups: Groups, shape: Sequence[int]) -> None:
    """Read all layers of all rows, each row a list of fixed size."""
    import lance

    data = lance.dataset(folder)
    for group in groups:
        column = data.take(group.numpy())["row"].combine_chunks()
        column.values.to_numpy().reshape(-1, *shape)


def read_litdata(folder: Path, n_rows: int) -> None:
    """Read all rows once, in the library's own order."""
    import litdata

    loader = litdata.StreamingDataLoader(
        litdata.StreamingDataset(str(folder), shuffle=True), batch_size=BATCH, num_workers=0
    )
    if sum(map(len, loader)) != n_rows:
        raise RuntimeError("litdata left rows out")


if __name__ == "__main__":
    main()
