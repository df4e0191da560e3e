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

_MOST = 12  # characters that a message names
_FAMILY: dict[str, str | None] = {}  # of an installed font that has a character: looked for once


def give_fonts(figure: Figure) -> None:
    """Let texts with letters that their usual font lacks fall back on installed ones."""
    wanted = {text: _unusual(text.get_text()) for text in figure.findobj(Text)}
    _look_for(set().union(*wanted.values()))
    for text, letters in wanted.items():
        if letters:
            families = (_FAMILY[letter] for letter in sorted(letters))
            text.set_fontfamily([*dict.fromkeys([*text.get_fontfamily(), *filter(None, families)])])


def name_missing(figure: Figure) -> None:
    """Say once which letters of a figure no installed font has, and which font to install."""
    letters = {letter for text in figure.findobj(Text) for letter in _unusual(text.get_text())}
    missing = sorted(letter for letter in letters if _FAMILY.get(letter) is None)
    if missing:
        alone = [one for one in missing if not unicodedata.category(one).startswith("M")] or missing
        warn_once(
            logger,
            "No installed font has %s: the figure shows boxes. Install %s (fonts.google.com/noto) "
            "and draw it again; an .svg file needs no font here.",
            " ".join(alone[:_MOST]) + " ..." * (len(alone) > _MOST),
            ", ".join(dict.fromkeys(map(_font_to_install, missing))),
        )


def _unusual(text: str) -> set[str]:
    """Return the letters of a text that the usual font lacks; control characters are none."""
    if text.isascii():
        return set()
    return {
        letter
        for letter in set(text)
        if ord(letter) not in _usual_letters()
        and unicodedata.category(letter) not in ("Cc", "Cf", "Cs")
    }


@cache
def _usual_letters() -> frozenset[int]:
    return frozenset(FT2Font(findfont(USUAL)).get_charmap())


def _look_for(letters: set[str]) -> None:
    """Note an installed font for each letter, where there is one."""
    left = set(map(ord, letters - _FAMILY.keys()))
    for family, path in _installed().items() if left else ():
        if not left:
            break
        with contextlib.suppress(OSError, RuntimeError):  # removed since, or damaged
            having = left.intersection(FT2Font(path).get_charmap())
            _FAMILY.update(dict.fromkeys(map(chr, having), family))
            left -= having
    _FAMILY.update(dict.fromkeys(map(chr, left)))


def _installed() -> dict[str, str]:
    """Return a file of each installed family: first Noto's sans-serif, of Chinese the simplified.

    Matplotlib keeps a list of fonts; what was installed since is added to it. Neither colour fonts
    serve, whose outlines are empty, nor the one that has a box for every letter.
    """
    listed = {font.fname for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - listed):
        with contextlib.suppress(OSError, RuntimeError):  # of bitmaps, or damaged
            fontManager.addfont(path)
    files = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    ordered = sorted(
        files, key=lambda name: (not name.startswith("Noto Sans"), not name.endswith(" SC"), name)
    )
    return {
        name: files[name]
        for name in ordered
        if not any(word in name for word in ("Color", "Last Resort"))
    }


def _font_to_install(letter: str) -> str:
    """Return the Noto font that has a letter."""
    if unicodedata.category(letter).startswith("S"):
        return "Noto Emoji"
    if unicodedata.east_asian_width(letter) in "WFH":
        return "Noto Sans CJK"
    return f"Noto Sans {unicodedata.name(letter, '').partition(' ')[0].title()}".rstrip()
