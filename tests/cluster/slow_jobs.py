"""Extraction by jobs that take their time over small units, so that they can be killed in it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from probekit.engines import Engine, SlurmEngine
from probekit.extraction import entry_session, extract, units
from probekit.extraction import plan as plan_module
from probekit.extraction.request_options import ExtractOptions
from probekit.store.builder import EntryBuilder


@contextmanager
def small_units(seconds: float = 0.0) -> Iterator[None]:
    """Cut entries into units of a few hundred words; each takes so long to be written."""
    write = EntryBuilder.write_unit

    def write_unit(builder, *args, **kwargs):
        time.sleep(seconds)
        write(builder, *args, **kwargs)

    with (
        patch.object(units, "UNIT_BYTES", 8_000),
        patch.object(plan_module, "chunk_rows_for", lambda dim, dtype, rows: 16),
        patch.object(EntryBuilder, "write_unit", write_unit),
    ):
        yield


@dataclass(frozen=True)
class SlowJob:
    """A job in small units; it may leave what it has completed unsealed."""

    job: object
    seconds: float
    sealing: bool

    def __call__(self, report):
        left = entry_session._complete_together if self.sealing else lambda builder, title: None
        with small_units(self.seconds), patch.object(entry_session, "_complete_together", left):
            yield from self.job(report)


@dataclass(frozen=True)
class SlowEngine:
    """Slurm with slow jobs."""

    engine: SlurmEngine
    seconds: float = 0.3
    sealing: bool = True

    def ready_for(self, folder, afterwards=None) -> Engine:
        """Return it for jobs that write into a folder."""
        return replace(self, engine=self.engine.ready_for(folder, afterwards))

    def __call__(self, jobs, *, workers, report):
        slow = [SlowJob(job, self.seconds, self.sealing) for job in jobs]
        yield from self.engine(slow, workers=workers, report=report)


def extract_train(model, corpus, cache, *, engine="local", workers=1):
    """Extract the train split of a corpus in small units."""
    with small_units():
        return extract(
            model,
            corpus,
            kind="tagging",
            label="2",
            splits=["train"],
            cache=cache,
            options=ExtractOptions(compute_dtype="float32", dtype="float32"),
            device="cpu",
            engine=engine,
            workers=workers,
        )
