"""Figures are written whole, the same bytes every time, in three formats."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from probekit import plot_depth, plot_weights, save_figure
from probekit.errors import OptionError, StorageError
from tests.results.samples import make_record

ROOT = Path(__file__).parents[2]
MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
WRITE = "import sys; from tests.plots.test_save import write; write(sys.argv[1])"


def write(folder):
    depth = plot_depth([make_record("p32", depth=depth) for depth in range(2)])
    for suffix in MAGIC:
        save_figure(depth, f"{folder}/depth{suffix}")
    save_figure(plot_weights([make_record("p32")]), f"{folder}/weights.svg")


def test_same_figure_gives_same_bytes_in_another_process(tmp_path):
    write(tmp_path / "0")
    other = [sys.executable, "-c", WRITE, str(tmp_path / "1")]
    assert subprocess.run(other, cwd=ROOT).returncode == 0
    written = sorted((tmp_path / "0").iterdir())
    assert len(written) == 4
    for path in written:
        content = path.read_bytes()
        assert content.startswith(MAGIC[path.suffix])
        assert content == (tmp_path / "1" / path.name).read_bytes()
        assert b"Matplotlib v" not in content and b"<dc:date>" not in content


@pytest.fixture(scope="module")
def figure():
    return plot_depth([make_record("p32", depth=depth) for depth in range(3)])


def test_png_has_200_dots_per_inch(tmp_path, figure):
    with Image.open(save_figure(figure, tmp_path / "new" / "depth.png")) as image:
        expected = [round(200 * inches) for inches in figure.get_size_inches()]
        assert image.size == pytest.approx(expected, abs=1)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["depth.png"]


@pytest.mark.parametrize("name", ["depth.jpg", "depth"])
def test_other_suffix_lists_the_three(tmp_path, name):
    with pytest.raises(OptionError, match=r"\.png, \.svg, \.pdf"):
        save_figure(Figure(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write the figure"):
        save_figure(Figure(), tmp_path / "file" / "depth.png")


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_full_disk(tmp_path, kind, figure):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**12, before[1]))
    try:
        with pytest.raises(StorageError, match="cannot write the figure \\(File too large\\)"):
            save_figure(figure, tmp_path / f"depth.{kind}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
