"""Which arrays an entry of a task keeps: what its labels need, or what was asked for."""

from collections.abc import Sequence

from probekit.errors import OptionError
from probekit.extraction.options import ARRAYS, ExtractOptions
from probekit.pooling import POOLED
from probekit.tasks import Kind, Task

_BY_KIND: dict[Kind, tuple[str, ...]] = {
    "tagging": ("words", "tokens"),
    "sentence": POOLED,
    "pair": POOLED,
    "regression": POOLED,
}


def resolve_keep(keep: Sequence[str] | None, task: Task) -> tuple[str, ...]:
    """Return the arrays to store, by name.

    Args:
        keep: what was asked for; None is what the kinds of the task's label columns need: a row
            per word and the last layer's subwords for tags, three rows per text for one label.
        task: the task.

    Raises:
        OptionError: the task's text has no such rows.
    """
    kinds = {task.kind, *map(task.kind_of, task.columns)}
    needed = {array for kind in kinds for array in _BY_KIND[kind]}
    wanted = tuple(name for name in ARRAYS if name in needed)
    if keep is None:
        return wanted
    if "words" in keep and task.kind != "tagging":
        raise OptionError(
            f"--keep words: the texts of {task.name} are not split into words. Choose from: "
            f"{', '.join(name for name in ARRAYS if name != 'words')}."
        )
    return tuple(keep)


def check_fits(options: ExtractOptions, task: Task) -> None:
    """Refuse options that mean nothing for the task's text, before they make a key of their own.

    Raises:
        OptionError: there is one.
    """
    if options.pooling != "auto" and task.kind != "tagging":
        raise OptionError(
            f"--pooling {options.pooling} says which subwords make a word's row, and the texts of "
            f"{task.name} have no words: first token, mean and last token are all kept, and "
            "training chooses. Leave it out."
        )
