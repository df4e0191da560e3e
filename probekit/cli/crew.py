"""The options that say what runs the work of a command, and how many at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probekit.base.registry import option

if TYPE_CHECKING:
    from probekit.engines import Engine


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Who does the work of a command."""

    workers: int = option(1, "Worker processes.")
    engine: str = option("local", "What runs the workers: local.")

    def chosen(self) -> "Engine":
        """Return the engine, as its options make it.

        Raises:
            UnknownNameError: there is no such engine.
        """
        from probekit.engines import engine_of

        return engine_of(self.engine)

    @property
    def ways(self) -> dict[str, Any]:
        """What `sweep` is told of it."""
        return {"workers": self.workers, "engine": self.chosen()}
