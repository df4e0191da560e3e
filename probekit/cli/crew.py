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
    engine: str = option(
        "local",
        "What runs the workers: local, or ray, with options: ray:gpus_per_worker=0.5; on the "
        "cluster of RAY_ADDRESS, else on one that is started here.",
    )

    def chosen(self) -> "Engine":
        """Return the engine.

        Raises:
            UnknownNameError: there is no such engine.
            OptionError: an option is not that engine's, or cannot be used; or the engine needs a
                package that is not installed.
        """
        from probekit.engines import engine_of

        return engine_of(self.engine)

    @property
    def ways(self) -> dict[str, Any]:
        """What `sweep` is told of it."""
        return {"workers": self.workers, "engine": self.chosen()}
