"""Fonts of figures: letters that DejaVu Sans lacks come from what is installed, or are named."""

import contextlib
import logging
import unicodedata
from functools import cache

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


def give_fonts(figure: Figure) -> set[str]:
    """Let texts fall back on installed fonts; return the letters that none of these has."""
    missing: set[str] = set()
    for text in figure.findobj(Text):
        families = {letter: _family_with(letter) for letter in filter(_is_drawn, text.get_text())}
        missing.update(letter for letter, family in families.items() if family is None)
        if families:
            fallback = filter(None, (families[letter] for letter in sorted(families)))
            text.set_fontfamily([*dict.fromkeys([*text.get_fontfamily(), *fallback])])
    return missing


def name_missing(letters: set[str]) -> None:
    """Say once which letters no installed font has, and where to get one."""
    if letters:
        named = " ".join(sorted(letters)[:_MOST]) + " ..." * (len(letters) > _MOST)
        warn_once(
            logger,
            "No installed font has %s: the figure shows boxes. Install the Noto font of that "
            "script (fonts.google.com/noto) and draw it again; an .svg file needs no font here.",
            named,
        )


def _is_drawn(letter: str) -> bool:
    return not letter.isascii() and unicodedata.category(letter) not in ("Cc", "Cf", "Cs")


@cache
def _family_with(letter: str) -> str | None:
    """Return the first installed family that has a letter, or None."""
    if ord(letter) in _letters(findfont(USUAL)):
        return USUAL
    return next((family for family, path in _installed() if ord(letter) in _letters(path)), None)


@cache
def _letters(path: str) -> frozenset[int]:
    """Return the letters of a font; none of a file that was removed since, or is damaged."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@cache
def _installed() -> list[tuple[str, str]]:
    """Return installed families with a file of each: Noto's sans-serif, then all others.

    Matplotlib keeps a list of fonts; what was installed since is added to it. Neither colour fonts
    serve, whose outlines are empty, nor the one that has a box for every letter.
    """
    listed = {font.fname for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - listed):
        with contextlib.suppress(OSError, RuntimeError):  # of bitmaps, or damaged
            fontManager.addfont(path)
    files = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    # of several forms of a Chinese letter the simplified one
    order = {name: (name[:9] != "Noto Sans", not name.endswith(" SC"), name) for name in files}
    return [
        (name, files[name])
        for name in sorted(files, key=order.__getitem__)
        if "Color" not in name and "Last Resort" not in name
    ]
