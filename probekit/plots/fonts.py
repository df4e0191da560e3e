"""Fonts of figures: letters that DejaVu Sans lacks come from what is installed, or are named."""

import contextlib
import logging
import unicodedata
from collections.abc import Iterator

from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from probekit.base.notices import warn_once

logger = logging.getLogger(__name__)

USUAL = "DejaVu Sans"
"""Comes with matplotlib: the same figure on every machine, wherever it has the letters."""

MISSING_GLYPH = "Glyph .* missing from font"
"""How matplotlib's warnings begin, in place of which `name_missing` says it."""

_MOST = 12  # letters that a message names
_FAMILY: dict[str, str | None] = {}  # of an installed font that has a letter: looked for once


def give_fonts(figure: Figure) -> set[str]:
    """Let texts fall back on installed fonts; return the letters that none of these has."""
    letters = {text: set(filter(_is_drawn, text.get_text())) for text in figure.findobj(Text)}
    every = set().union(*letters.values())
    _look_for(every - _FAMILY.keys())
    for text, drawn in letters.items():
        families = [*text.get_fontfamily(), *(_FAMILY[letter] for letter in sorted(drawn))]
        if drawn:
            text.set_fontfamily([*filter(None, dict.fromkeys(families))])
    return {letter for letter in every if _FAMILY[letter] is None}


def name_missing(letters: set[str]) -> None:
    """Say once which letters no installed font has, and which font to install."""
    if letters:
        missing = sorted(letters, key=lambda one: (unicodedata.category(one)[0] == "M", one))
        warn_once(
            logger,
            "No installed font has %s: the figure shows boxes. Install %s (fonts.google.com/noto) "
            "and draw it again; an .svg file needs no font here.",
            " ".join(missing[:_MOST]) + " ..." * (len(missing) > _MOST),
            ", ".join(dict.fromkeys(map(_font_to_install, missing))),
        )


def _is_drawn(letter: str) -> bool:
    return not letter.isascii() and unicodedata.category(letter) not in ("Cc", "Cf", "Cs")


def _look_for(letters: set[str]) -> None:
    """Note an installed font for each letter, where there is one."""
    fonts = _installed()
    while letters and (font := next(fonts, None)):
        family, path = font
        with contextlib.suppress(OSError, RuntimeError):  # removed since, or damaged
            having = letters.intersection(map(chr, FT2Font(path).get_charmap()))
            _FAMILY.update(dict.fromkeys(having, family))
            letters = letters - having
    _FAMILY.update(dict.fromkeys(letters))


def _installed() -> Iterator[tuple[str, str]]:
    """Yield installed families with a file of each: the usual one, Noto's sans-serif, all others.

    Matplotlib keeps a list of fonts; what was installed since is added to it. Neither colour fonts
    serve, whose outlines are empty, nor the one that has a box for every letter.
    """
    yield USUAL, findfont(USUAL)
    listed = {font.fname for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - listed):
        with contextlib.suppress(OSError, RuntimeError):  # of bitmaps, or damaged
            fontManager.addfont(path)
    files = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    # of several forms of a Chinese letter the simplified one
    order = {name: (name[:9] != "Noto Sans", not name.endswith(" SC"), name) for name in files}
    for name in sorted(files, key=order.__getitem__):
        if "Color" not in name and "Last Resort" not in name:
            yield name, files[name]


def _font_to_install(letter: str) -> str:
    """Return the Noto font that has a letter."""
    if unicodedata.category(letter).startswith("S"):
        return "Noto Emoji"
    if unicodedata.east_asian_width(letter) in "WFH":
        return "Noto Sans CJK"
    return f"Noto Sans {unicodedata.name(letter, '').partition(' ')[0].title()}".rstrip()
