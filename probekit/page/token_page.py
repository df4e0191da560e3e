"""Texts coloured by what heads find in each token, on one page in one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probekit.base.replacing import replacing
from probekit.errors import StorageError
from probekit.page.report_page import page_environment, static_text
from probekit.version import __version__


@dataclass(frozen=True, kw_only=True)
class ColouredText:
    """A text as heads read it.

    Attributes:
        label: the label whose probability the colours are.
        rows: by the name of each head, its tokens with these probabilities.
    """

    label: str
    rows: Mapping[str, Sequence[tuple[str, float]]]


def write_token_page(out: Path, title: str, texts: Sequence[ColouredText]) -> None:
    """Write the page; texts in it are shown as text.

    Args:
        out: the file, which `check_report` accepts.
        title: of the page.
        texts: in their order.

    Raises:
        StorageError: the file cannot be written.
    """
    page = page_environment().get_template("tokens.html.j2")
    shown = page.render(
        title=title, texts=texts, style=static_text("report.css"), version=__version__
    )
    try:
        with replacing(out) as fresh:
            fresh.write_bytes(shown.encode("utf-8", errors="replace"))
    except OSError as error:
        raise StorageError(f"{out}: cannot write the page ({error.strerror}).") from error
