"""Figures are written whole, the same bytes every time, in three formats."""

import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from PIL import Image

from probekit import plot_depth, plot_weights, save_figure
from probekit.errors import OptionError, StorageError
from probekit.plots import style
from tests.plots.samples import row_names, sample_records
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


LETTERS = "\u65b0\u805e"  # which none of the fonts has that come with matplotlib


@pytest.fixture(autouse=True)
def no_fonts(monkeypatch, tmp_path):
    """No font is installed, and none has been looked for."""
    for cached in (style._family_with, style._installed):
        cached.cache_clear()
    monkeypatch.setattr(style, "findSystemFonts", lambda: [])
    monkeypatch.setattr(style.fontManager, "ttflist", list(style.fontManager.ttflist))
    style.warn_once.__globals__["_give"].cache_clear()


def install(monkeypatch, path, letters):
    """Write a font of boxes, and let it be installed after matplotlib has listed all fonts."""
    pen = TTGlyphPen(None)
    for step, point in enumerate([(0, 0), (0, 700), (700, 700), (700, 0)]):
        pen.lineTo(point) if step else pen.moveTo(point)
    pen.closePath()
    box, names = pen.glyph(), [".notdef", *(f"u{ord(letter):x}" for letter in letters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): f"u{ord(letter):x}" for letter in letters})
    builder.setupGlyf(dict.fromkeys(names, box))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": path.stem, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    monkeypatch.setattr(style, "findSystemFonts", lambda: [str(path)])


def records_of(task):
    return [record for name in (task, "plain") for record in sample_records(("p32",), task=name)]


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_an_installed_font_draws_what_the_usual_one_lacks(monkeypatch, tmp_path, caplog, kind):
    install(monkeypatch, tmp_path / "Boxes.ttf", LETTERS)
    figure = plot_weights(records_of(LETTERS))
    (label,) = (text for text in figure.axes[0].get_yticklabels() if LETTERS in text.get_text())
    assert label.get_fontfamily() == [style.USUAL, "sans-serif", "Boxes"]
    assert figure.axes[0].xaxis.label.get_fontfamily() == [style.USUAL, "sans-serif"]
    figure.axes[0].set_title(LETTERS)  # of the user's, in a font of his own
    save_figure(figure, tmp_path / f"w.{kind}")
    with warnings.catch_warnings(action="error"):
        Figure.draw(figure, figure.canvas.get_renderer())  # as matplotlib warns of it
    assert caplog.text == ""


def test_letters_of_no_font_are_named_with_what_to_install(tmp_path, caplog):
    figure = plot_weights(records_of(f"{LETTERS}\u0939\U0001faf6"))
    save_figure(figure, tmp_path / "w.svg")
    assert caplog.text == ""  # the reader's machine has them, or has not
    text = (tmp_path / "w.svg").read_text("utf-8")
    assert LETTERS in text and "font-family: 'DejaVu Sans', sans-serif;" in text
    for kind in ("png", "pdf", "png"):
        save_figure(figure, tmp_path / f"w.{kind}")
    (message,) = caplog.messages
    assert message == (
        "No installed font has \u0939 \u65b0 \u805e \U0001faf6: the figure shows boxes. Install "
        "the Noto font of that script (fonts.google.com/noto) and draw it again; an .svg file "
        "needs no font here."
    )


def test_a_user_who_draws_is_told_as_well(caplog):
    figure = plot_weights(records_of(LETTERS))
    assert any(LETTERS in name for name in row_names(figure.axes[0]))
    figure.draw_without_rendering()
    assert "No installed font has \u65b0 \u805e" in caplog.text
