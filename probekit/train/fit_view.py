"""The outcome of a run as a notebook shows it."""

from typing import TYPE_CHECKING

from probekit.base.markup import Markup, html_pairs, html_table, html_view
from probekit.results.summaries.wording import layers_text, value_text
from probekit.results.tables.record_views import layers_part

if TYPE_CHECKING:
    from probekit.train.result import FitResult

_SHOWN = ("converged", "iterations", "strength", "edge")
"""What is said of how the fit went."""


def fit_view(result: "FitResult") -> Markup:
    """Return what was fitted, its scores on every split, and what its layers count."""
    said = result.diagnosis
    modules = {part: dict(values) for part, values in result.modules.items()}
    named = {part: values.pop("name") for part, values in modules.items()}
    options = [
        f"{part}.{name}={value}"
        for part, values in modules.items()
        for name, value in values.items()
        if value is not None
    ]
    pairs = {
        **{part: name for part, name in named.items() if name != "none"},
        "layers": layers_text(result.layers),
        **({"options": ", ".join(options)} if options else {}),
        **({"best epoch": f"{result.best_epoch:.3g}"} if result.best_step else {}),
        **{name: value_text(name, said[name]) for name in _SHOWN if name in said},
        "parameters": f"{result.n_params:,}",
        "seconds": f"{result.train_seconds:.1f}",
    }
    splits = list(dict.fromkeys(name.partition("/")[0] for name in result.scores))
    names = list(dict.fromkeys(name.partition("/")[2] for name in result.scores))
    rows = [
        [split, *(_score(result.scores.get(f"{split}/{name}")) for name in names)]
        for split in splits
    ]
    scores = html_table(["", *names], rows, [True, *(False for _ in names)])
    measures = {"weight": result.weights, "share": result.shares, "ablation": result.ablation}
    notes = ["diverged: the loss or a trained value ceased to be finite"] * result.diverged
    title = f"{named['head']}, fitted"
    return html_view(scores, html_pairs(pairs), layers_part(measures), title=title, notes=notes)


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
