"""The options that say what runs the work of a command, and how many at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probekit.base.registry import option
from probekit.errors import OptionError

if TYPE_CHECKING:
    from probekit.engines import Engine


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Who does the work of a command."""

    workers: int = option(1, "Worker processes.")
    engine: str = option("local", "What runs the workers: local or slurm.")
    slurm: str | None = option(
        None,
        "Of each job of --engine slurm: partition, time in minutes, and more.",
        metavar="NAME=VALUE,...",
    )

    def chosen(self) -> "Engine":
        """Return the engine, as its options make it.

        Raises:
            UnknownNameError: there is no such engine.
            OptionError: an option is not that engine's, or cannot be used.
        """
        from probekit.engines import SlurmEngine, engine_of

        if self.engine == "slurm":
            return SlurmEngine.asked(self.slurm)
        if self.slurm is not None:
            raise OptionError(f"--slurm {self.slurm} is for --engine slurm: leave it out.")
        return engine_of(self.engine)

    @property
    def ways(self) -> dict[str, Any]:
        """What `sweep` is told of it."""
        return {"workers": self.workers, "engine": self.chosen()}
