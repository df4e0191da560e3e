"""The HTML of a page: a template, with styles, scripts and data inlined so that it is one file."""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_STATIC = files("probekit.page") / "static"

LIBRARIES = ("d3.min.js", "plot.umd.min.js")
"""Kept libraries, as published: see ``static/vendor/README.md``."""

_SCRIPTS = ("csv_copies.js", "pictures.js", "judges.js", "examples.js", "page.js")

_HARMLESS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What ends a script element, or begins a comment in one, written as JSON may write it."""


def render(title: str, data: Mapping[str, Any]) -> bytes:
    """Return the page.

    Args:
        title: of the page.
        data: what its scripts draw, JSON values; texts in it are shown as text, whatever they hold.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # slow to import

    environment = Environment(
        loader=FunctionLoader(static_text), autoescape=True, undefined=StrictUndefined
    )
    scripts = [static_text(f"vendor/{name}") for name in LIBRARIES]
    scripts += [static_text(name) for name in _SCRIPTS]
    page = environment.get_template("report.html.j2").render(
        title=title,
        style=static_text("report.css"),
        scripts=scripts,
        hashes=[script_hash(one) for one in scripts],
        data=script_json(data),
    )
    # half of a surrogate pair, which JSON may hold and UTF-8 not, becomes an escape of JSON
    return page.encode("utf-8", errors="backslashreplace")


def script_json(data: Mapping[str, Any]) -> str:
    """Return JSON that may stand in a script element: no text in it can end that element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_HARMLESS)


def script_hash(script: str) -> str:
    """Return what a content security policy calls an inline script that may run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def static_text(name: str) -> str:
    """Return a file of the page's own."""
    return _STATIC.joinpath(name).read_text(encoding="utf-8")
