"""``probekit report``: records as one HTML page."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from probekit.base.notices import human_bytes
from probekit.base.registry import option
from probekit.cli import arguments
from probekit.cli.output import checked_default, progress_wanted, show
from probekit.cli.record_reading import Runs, Where
from probekit.cli.spread import spread

logger = logging.getLogger(__name__)

_MARK = b'<meta name="generator" content="probekit">'
_HEAVY = 100e6
"""Bytes of a page from which on a browser takes more than some seconds to open it."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the page shows, as it is typed."""

    split: str | None = option(
        None,
        "test or dev.",
        show_default="test where all that is shown together have one, else dev",
    )
    title: str | None = option(None, "Of the page.", show_default="models and tasks")
    note: str | None = option(None, "A paragraph under the title: the question, the answer.")
    against: str | None = option(
        None,
        "What scores are compared with: a head, or conditions such as head=mean,normalize=none.",
        show_default="last",
    )
    examples: int = option(
        20_000,
        "Most sentences of a task whose predictions the page holds, evenly spaced; 0: none.",
    )


@spread
def report(
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="FILE.html; its folder must exist.", show_default="report.html"
        ),
    ] = None,
    where: Where = None,
    cache: arguments.Cache = Path("cache"),
    *,
    shown: Shown,
) -> None:
    """Write what RUNS hold as one HTML page, to be opened anywhere: no server, no network.

    Scores, curves, layer weights, overthinking, and every example with what each depth predicts of
    it, where the runs kept their --predictions.
    """
    from probekit.page.report_page import ReportOptions, check_report, write_report
    from probekit.results import load_records, select

    path = output or checked_default(Path("report.html"), _MARK)
    check_report(path)
    options = ReportOptions(cache=cache, progress=progress_wanted(), **vars(shown))
    records = select(load_records(runs), where or [])
    path = write_report(records, path, options)
    size = path.stat().st_size
    show(f"{path} ({human_bytes(size)})")
    if size > _HEAVY:
        logger.warning(
            "a page of this size opens slowly: choose among the runs with --where task=TASK, or "
            "show fewer sentences with --examples 1000."
        )
