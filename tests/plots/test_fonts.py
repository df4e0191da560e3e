"""Letters of every script: drawn where a font is installed, named in one line where none is."""

import warnings

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure

from probekit import plot_weights, save_figure
from probekit.plots import style
from tests.plots.samples import row_names, sample_records

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
