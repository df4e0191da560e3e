"""Run a model and put back what running it changed: some families switch their ways for good."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

_TABLES = ("_parameters", "_buffers", "_modules")
_CONSTANT = ("torch.nn.", "probekit.")
"""Where classes are defined whose modules stay as they are: most modules of a model, for speed."""

_KEPT = "_output_capturing_hooks_installed"
"""Goes with hooks that stay: without it transformers would install them anew, beside these."""


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Put back the attributes, buffers and parts of every module, and the configuration's entries.

    BigBird replaces its sparse attention by full attention at the first short input, and rotary
    embeddings with dynamic scaling keep the frequencies of a long one. What is replaced or set is
    put back, also after an error; a tensor that is written in place is not.
    """
    before = [(table, dict(table)) for table in _tables(model)]
    try:
        yield
    finally:
        for table, content in before:
            if _KEPT in table:
                content[_KEPT] = table[_KEPT]
            if not _same(table, content):
                table.clear()
                table.update(content)


def _tables(model: nn.Module) -> list[dict[str, Any]]:
    """Return the dicts that hold what a model is made of, each once."""
    found = []
    for module in model.modules():
        if type(module).__module__.startswith(_CONSTANT):
            continue
        own = module.__dict__
        found += [own, *(own[name] for name in _TABLES)]
    if (config := model.__dict__.get("config")) is not None:
        found.append(config.__dict__)
    return found


def _same(table: dict[str, Any], content: dict[str, Any]) -> bool:
    return table.keys() == content.keys() and all(table[key] is content[key] for key in content)
