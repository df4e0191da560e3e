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
    engine: str = option("local", "What runs the workers: local or ray.")
    address: str | None = option(
        None,
        "For ray: a running cluster that this machine is of, auto or HOST:PORT; without it "
        "RAY_ADDRESS, or one is started here.",
        metavar="HOST:PORT",
    )
    gpus_per_worker: float | None = option(
        None,
        "For ray: GPUs of each worker, also a part of one; by default one where there are any.",
    )

    def chosen(self) -> "Engine":
        """Return the engine, as its options make it.

        Raises:
            UnknownNameError: there is no such engine.
            OptionError: an option is not that engine's, or cannot be used; or the engine needs a
                package that is not installed.
        """
        from probekit.engines import RayEngine, engine_of

        if self.engine != "ray" and self.address is not None:
            raise OptionError(f"--address {self.address} is for --engine ray: leave it out.")
        if self.engine == "ray":
            return RayEngine(address=self.address, gpus_per_worker=self.gpus_per_worker)
        if self.gpus_per_worker is not None:
            raise OptionError(
                f"--gpus-per-worker {self.gpus_per_worker:g}: workers of the engine {self.engine} "
                "are on this machine, and take its GPUs in turn. Leave it out, or give another "
                "--engine."
            )
        return engine_of(self.engine)

    @property
    def ways(self) -> dict[str, Any]:
        """What `sweep` is told of it."""
        return {"workers": self.workers, "engine": self.chosen()}
