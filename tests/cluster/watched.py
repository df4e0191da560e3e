"""Jobs that note what they do as they do it, and wait in the middle of it, to be killed."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.extraction import plan as plan_module
from probekit.store.builder import EntryBuilder
from probekit.train.sweeps.outputs import Outputs

UNIT_BYTES = 8_000
WRITE_UNIT, WRITE_OUTPUTS = EntryBuilder.write_unit, Outputs.write


def few_rows(dim, dtype, rows):
    return 16


def node():
    """Where this process runs: the id of a node of Ray, or nothing."""
    try:
        import ray
    except ImportError:
        return "-"
    return ray.get_runtime_context().get_node_id() if ray.is_initialized() else "-"


@dataclass(frozen=True)
class Watched:
    """A job in small units that notes each unit once it is marked, and each run it has fitted.

    Attributes:
        job: the job.
        notes: the file: a line of process, node, and what is done.
        go_on: a file; until it is there, a process waits after its second note.
    """

    job: Any
    notes: Path
    go_on: Path | None

    def __call__(self, report):
        plan_module.UNIT_BYTES, plan_module.chunk_rows_for = UNIT_BYTES, few_rows

        def write_unit(builder, index, *args, **options):
            WRITE_UNIT(builder, index, *args, **options)
            self.note(f"{builder.partial.name} {index}")

        def write_outputs(outputs, run, *args):
            WRITE_OUTPUTS(outputs, run, *args)
            self.note(f"{run.options.key} fitted")

        EntryBuilder.write_unit, Outputs.write = write_unit, write_outputs
        try:
            yield from self.job(report)
        finally:
            EntryBuilder.write_unit, Outputs.write = WRITE_UNIT, WRITE_OUTPUTS

    def note(self, text):
        line = f"{os.getpid()} {node()} {text}\n"
        with self.notes.open("a") as file:
            file.write(line)
        while self.go_on and not self.go_on.exists() and len(self.own_notes()) == 2:
            time.sleep(0.05)

    def own_notes(self):
        return [line for line in read_notes(self.notes) if line[0] == str(os.getpid())]


def watched(engine, notes, go_on=None):
    """Return an engine whose jobs are watched."""

    def start(jobs, *, workers, report):
        jobs = [Watched(job, notes, go_on) for job in jobs]
        yield from engine(jobs, workers=workers, report=report)

    return start


def read_notes(notes):
    """The notes so far: process, node, and two words."""
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
