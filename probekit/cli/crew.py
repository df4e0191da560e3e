"""The options that say what runs the work of a command, and how many at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probekit.base.registry import flag, option
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
        None, "For ray: GPUs of each worker, or a part of one; by default one where there are any."
    )

    def chosen(self) -> "Engine":
        """Return the engine, as its options make it.

        Raises:
            UnknownNameError: there is no such engine.
            OptionError: it has no such option, or needs a package that is not installed.
        """
        from probekit.engines import RayEngine, engine_of

        if self.engine == "ray":
            return RayEngine(address=self.address, gpus_per_worker=self.gpus_per_worker)
        engine = engine_of(self.engine)
        for name in ("address", "gpus_per_worker"):
            if (value := getattr(self, name)) is not None:
                raise OptionError(
                    f"{flag(name)} {value}: workers of the engine {self.engine} are on this "
                    "machine, and take its GPUs in turn. Leave it out, or give --engine ray."
                )
        return engine

    @property
    def ways(self) -> dict[str, Any]:
        """What `sweep` is told of it."""
        return {"workers": self.workers, "engine": self.chosen()}
