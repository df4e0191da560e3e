"""Texts coloured by what heads find in each token, or what layers predict there, as one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.base.replacing import replacing
from probekit.errors import StorageError
from probekit.page.report_page import page_environment, static_text
from probekit.results.lens_scores import TextPredictions
from probekit.results.summaries.wording import layer_text
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
    _write(out, "tokens.html.j2", title=title, texts=texts)


def write_lens_page(out: Path, found: TextPredictions) -> None:
    """Write what each layer predicts at each position: a row per layer, the last one on top.

    Args:
        out: the file, which `check_report` accepts.
        found: what `lens_of_text` returned.

    Raises:
        StorageError: the file cannot be written.
    """
    rows = list(zip(*found.positions, strict=True))[::-1]
    title = f"{found.model}, {found.lens} lens"
    _write(out, "lens.html.j2", title=title, found=found, rows=rows)


def _write(out: Path, template: str, **content: Any) -> None:
    """Render a template with the style that pages share, and write it."""
    pages = page_environment()
    pages.filters["named"] = layer_text
    pages.filters["shown"] = lambda token: repr(token)[1:-1] if token.strip(" ") else "␣"
    shown = pages.get_template(template).render(
        content, style=static_text("report.css"), version=__version__
    )
    try:
        with replacing(out) as fresh:
            fresh.write_bytes(shown.encode("utf-8", errors="replace"))
    except OSError as error:
        raise StorageError(f"{out}: cannot write the page ({error.strerror}).") from error
