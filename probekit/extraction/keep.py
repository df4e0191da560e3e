"""Which arrays an entry of a task keeps: what its labels need, or what was asked for."""

from collections.abc import Sequence

from probekit.base.kinds import ARRAYS, KINDS, OUTPUT_HEAD
from probekit.errors import OptionError
from probekit.extraction.request_options import KEEP
from probekit.tasks import Task


def resolve_keep(keep: Sequence[str] | None, task: Task) -> tuple[str, ...]:
    """Return what to store, by name, in the order of an entry.

    Args:
        keep: what was asked for; None is what the kinds of the task's label columns need: a row
            per word and the last layer's subwords for tags, three rows per text for one label, a
            row per prediction and the output head for language modelling.
        task: the task.

    Raises:
        OptionError: the task's text has no such rows.
    """
    kinds = {task.kind, *map(task.kind_of, task.columns)}
    if keep is None:
        needed = {name for kind in kinds for name in KINDS[kind].needed}
        return tuple(name for name in KEEP if name in needed)
    possible = (*KINDS[task.kind].possible, "tokens", OUTPUT_HEAD)
    for name in keep:
        if name not in possible:
            raise OptionError(
                f"--keep {name}: the text of {task.name} ({task.kind}) has no such rows. Choose "
                f"from: {', '.join(possible)}."
            )
    return tuple(keep)


def arrays_of(keep: Sequence[str]) -> tuple[str, ...]:
    """Return what of ``keep`` are arrays."""
    return tuple(name for name in keep if name in ARRAYS)
