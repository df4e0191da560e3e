"""Entries are read by programs that others wrote: Zarr, HDF5 and Parquet, equal to the bit."""

import functools
import itertools
import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import datasets
import duckdb
import h5py
import numpy as np
import polars
import pyarrow.parquet as pq
import pyfive
import pytest
import tensorstore
import xarray
import zarr
import zarr_lint
from zarr_metadata.model import ZarrV3ArrayMetadata, ZarrV3GroupMetadata

from probekit.backbone.checkpoint import demo_model_folder
from probekit.store.backends import BACKENDS
from probekit.store.checksums import places_of
from probekit.store.entry import Entry, list_entries
from probekit.store.layout import dimension_names, labels_folder
from tests.cli.console import done
from tests.store import synthetic

pytestmark = pytest.mark.judges

NPM = Path(__file__).parents[2] / "build" / "judges" / "npm"
DTYPES = ("float16", "bfloat16", "int8")
KEPT = "words,cls,mean,last,tokens"
ENTRIES = "small ones and MiniLM's, in float16, bfloat16 and int8"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Extract some sentences with MiniLM: by format, an entry of every dtype, rows of all kinds."""
    root = tmp_path_factory.mktemp("real")
    words = (demo_model_folder(), "demo-ner", "--keep", KEPT, "--limit", "12", "--layers", "0,3,6")
    for backend, dtype in itertools.product(BACKENDS, DTYPES):
        stored = ("--format", backend, "--dtype", dtype, "--split", "train")
        done("extract", *words, *stored, "--cache", root / backend)
    return {
        backend: [Entry.open(one.path) for one in list_entries(root / backend)]
        for backend in BACKENDS
    }


@pytest.fixture(scope="module")
def entries(real, tmp_path_factory):
    """By format: small entries with every awkward size in them, sharded ones, and real ones."""
    root = tmp_path_factory.mktemp("synthetic")
    built = {
        backend: [
            synthetic.build(root / backend / dtype / "train-00000000", backend, dtype)
            for dtype in DTYPES
        ]
        for backend in BACKENDS
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("probekit.store.backends.zarr_folder._MOST_FILES", 8)
        for dtype in DTYPES:
            path = root / "sharded" / dtype / "train-00000000"
            built["zarr"].append(synthetic.build(path, "zarr", dtype))
            assert "sharding_indexed" in (store(built["zarr"][-1]) / "words/zarr.json").read_text()
    return {backend: built[backend] + real[backend] for backend in BACKENDS}


def store(entry):
    return entry.path / BACKENDS[entry.manifest.backend].filename


def plain_arrays(entry):
    return [plain for spec in entry.manifest.arrays for plain in spec.plain()]


def node(script, *arguments):
    """Run a script where tools/judge.py put it, and return what it says."""
    command = ["node", NPM / script, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def npm_version(package):
    return json.loads((NPM / "node_modules" / package / "package.json").read_text())["version"]


def bytes_at_their_places(entry):
    """Return the stored arrays from the bytes at the places where probekit maps them."""
    arrays = {}
    for name, places in places_of(
        entry.path, entry.manifest.backend, entry.manifest.arrays
    ).items():
        plain = places.array
        arrays[name] = np.empty(plain.shape, plain.dtype)
        for at in np.ndindex(plain.grid):
            data = np.fromfile(
                places.files[places.file_index[at]], plain.dtype, np.prod(plain.chunks),
                offset=places.offsets[at],
            )  # fmt: skip
            where = tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, plain.chunks, strict=False))
            arrays[name][where] = data.reshape(plain.chunks)
    return arrays


def decoded(spec, arrays):
    """Return hidden states in float32 from stored arrays, as cache/README.md says."""
    values = arrays[spec.name]
    if spec.dtype == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    if spec.dtype == "int8":
        scale = np.repeat(arrays[f"{spec.name}_scale"], spec.chunk_rows, axis=0)
        return values.astype(np.float32) * scale * arrays[f"{spec.name}_norm"][..., None]
    return values.astype(np.float32)


def check_arrays(entry, arrays):
    """Compare what a judge has read with what lies there, and its rows with probekit's."""
    for name, expected in bytes_at_their_places(entry).items():
        assert arrays[name].shape == expected.shape, name
        assert arrays[name].tobytes() == expected.tobytes(), name
    for spec in entry.manifest.arrays:
        rows = entry.arrays[spec.name].read(slice(None)).float().numpy()
        assert decoded(spec, arrays).tobytes() == rows.tobytes(), spec.name


def by_zarr(entry):
    group = zarr.open_group(store(entry), mode="r")
    return {name: array[:] for name, array in group.arrays()}


def by_zarrs(entry):
    with zarr.config.set({"codec_pipeline": {"path": "zarrs.ZarrsCodecPipeline", "strict": True}}):
        return by_zarr(entry)


def by_tensorstore(entry):
    dimensions = dimension_names(plain_arrays(entry))

    def read(plain):
        kvstore = {"driver": "file", "path": str(store(entry) / plain.name)}
        array = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
        assert array.domain.labels == dimensions[plain.name]
        return array.read().result()

    return {plain.name: read(plain) for plain in plain_arrays(entry)}


def by_h5py(entry):
    with h5py.File(store(entry), "r") as file:
        return {name: data[:] for name, data in file.items() if data.chunks}


def by_pyfive(entry):
    """Read a contiguous copy, as HDF5's own tool makes it: pyfive has no chunk index of 1.10."""
    copy = entry.path.parent / "contiguous.h5"
    subprocess.run(["h5repack", "-l", "CONTI", store(entry), copy], check=True)
    with pyfive.File(str(copy)) as file:
        for plain in plain_arrays(entry):
            assert file[plain.name].attrs["layers"].tolist() == list(plain.logical.layers)
        return {plain.name: file[plain.name][...] for plain in plain_arrays(entry)}


def by_h5dump(entry):
    def read(plain):
        out = entry.path.parent / "dumped"
        command = ["h5dump", "-d", plain.name, "-b", "FILE", "-o", out, store(entry)]
        subprocess.run(command, check=True, capture_output=True)
        return np.fromfile(out, plain.dtype).reshape(plain.shape)

    return {plain.name: read(plain) for plain in plain_arrays(entry)}


def by_node(script, entry):
    plain = {plain.name: plain for plain in plain_arrays(entry)}
    folder = entry.path.parent / script.removesuffix(".mjs")
    folder.mkdir(exist_ok=True)
    known = node(script, store(entry), folder, *plain)
    dimensions = dimension_names(plain_arrays(entry))
    for name, array in plain.items():
        assert known[name]["layers"] == list(array.logical.layers)
        assert known[name]["dims"] == list(dimensions[name])
    return {
        name: np.fromfile(folder / name, plain[name].dtype).reshape(array["shape"])
        for name, array in known.items()
    }


READERS = {
    "zarr": ("zarr", by_zarr),
    "zarrs": ("zarr", by_zarrs),
    "tensorstore": ("zarr", by_tensorstore),
    "zarrita": ("zarr", functools.partial(by_node, "read_zarr.mjs")),
    "h5py": ("hdf5", by_h5py),
    "pyfive": ("hdf5", by_pyfive),
    "h5dump": ("hdf5", by_h5dump),
    "h5wasm": ("hdf5", functools.partial(by_node, "read_hdf5.mjs")),
}


def version_of(reader):
    if reader == "h5dump":
        said = subprocess.run(["h5dump", "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split()[-1]
    return npm_version(reader) if (NPM / "node_modules" / reader).exists() else version(reader)


@pytest.mark.parametrize("reader", READERS)
def test_arrays(entries, judged, reader):
    backend, read = READERS[reader]
    for entry in entries[backend]:
        check_arrays(entry, read(entry))
    what = f"every array of {backend} entries, {'sharded too, ' * (backend == 'zarr')}{ENTRIES}"
    judged(f"{reader} {version_of(reader)}", what, "equal to the bit")


def test_zarr_lint(entries, judged):
    for entry in entries["zarr"]:
        assert zarr_lint.lint(store(entry))["diagnostics"] == []
    judged(f"zarr-lint {version('zarr-lint')}", "Zarr entries, sharded too", "no diagnostics")


def test_zarr_metadata(entries, judged):
    for entry in entries["zarr"]:
        for file in store(entry).rglob("zarr.json"):
            said = json.loads(file.read_text())
            kind = {"array": ZarrV3ArrayMetadata, "group": ZarrV3GroupMetadata}[said["node_type"]]
            assert json.loads(json.dumps(kind.from_json(said).to_json())) == said
    what = "metadata of Zarr entries, sharded too"
    judged(f"zarr-metadata {version('zarr-metadata')}", what, "valid, and written back the same")


@pytest.mark.parametrize("backend", BACKENDS)
def test_xarray(entries, judged, backend):
    engine = {"zarr": {"engine": "zarr", "consolidated": False}, "hdf5": {"engine": "h5netcdf"}}
    for entry in entries[backend]:
        first, *_ = entry.manifest.arrays
        layer = first.layers[-1]
        with xarray.open_dataset(store(entry), **engine[backend]) as read:
            arrays = {name: array.values for name, array in read.items()}
            assert read[first.name].dims == ("rows", "layers", "dim")
            at = list(read[first.name].attrs["layers"]).index(layer)
            dims = {name: array.dims for name, array in read.items()}
        assert arrays.keys() == {plain.name for plain in plain_arrays(entry)}
        check_arrays(entry, arrays)
        rows = entry.arrays[first.name].read(slice(None), [layer])[:, 0].float().numpy()
        assert decoded(first, arrays)[:, at].tobytes() == rows.tobytes()
        for spec in entry.manifest.arrays:  # what is multiplied has axes of the same name
            if spec.dtype == "int8":
                values, norm, scale = (dims[plain.name] for plain in spec.plain())
                assert (norm, scale[1:]) == (values[:2], values[1:])
    judged(
        f"xarray {version('xarray')}", f"{backend} entries, opened whole",
        "dimensions `rows`, `layers`, `dim`; numbers of layers in `attrs`; equal to the bit",
    )  # fmt: skip


def test_hdf5_of_datasets(entries, judged, tmp_path):
    for entry in entries["hdf5"]:
        for plain in plain_arrays(entry):
            expected = by_h5py(entry)[plain.name]
            *_, width = shape = expected.shape[1:]
            feature = datasets.List(datasets.Value(plain.dtype), length=width)
            if len(shape) == 2:
                feature = datasets.Array2D(shape, plain.dtype)
            table = datasets.load_dataset(
                "hdf5", data_files=str(store(entry)), split="train", cache_dir=str(tmp_path),
                features=datasets.Features({plain.name: feature}),
            )  # fmt: skip
            values = np.array(table.with_format("arrow")[:][plain.name].to_pylist(), plain.dtype)
            assert values.tobytes() == expected.tobytes()
    what = "each array of HDF5 entries, named in `features`"
    judged(f"datasets {version('datasets')}", what, "equal to the bit")


PARQUET = {
    "duckdb": lambda file: duckdb.read_parquet(str(file)).to_arrow_table().to_pylist(),
    "polars": lambda file: polars.read_parquet(file).to_dicts(),
    "hyparquet": lambda file: node("read_parquet.mjs", file),
}


@pytest.mark.parametrize("reader", PARQUET)
def test_parquet(entries, real, judged, reader):
    files = [
        file for each in entries.values() for one in each for file in one.path.glob("*.parquet")
    ]
    labels = {
        f for each in real.values() for one in each for f in labels_folder(one.path).iterdir()
    }
    assert labels
    for file in [*files, *labels]:
        assert PARQUET[reader](file) == pq.read_table(file).to_pylist(), file.name
    assert {name.name for name in files} == {"examples.parquet", "checksums.parquet"}
    judged(f"{reader} {version_of(reader)}", "examples, checksums and labels (Parquet)", "equal")
