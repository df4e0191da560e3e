"""Run the command line inside this process, as a user would type it."""

import functools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer import testing

from probekit.cli import app

# A process makes its commands once. The runner would make them for every line, which takes longer
# than most of what is run here.
testing._get_command = functools.cache(testing._get_command)


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, results (stdout), messages (stderr), what it raised."""

    code: int
    out: str
    err: str
    raised: BaseException | None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The results of ``--json``, one object per line."""
        return [json.loads(line) for line in self.out.split("\n") if line]


def run(*arguments: object, text: str | bytes | None = None) -> Outcome:
    """Run ``probekit ARGUMENTS`` with ``text`` on stdin."""
    with _logging_kept():
        result = testing.CliRunner().invoke(app, [str(word) for word in arguments], input=text)
    return Outcome(result.exit_code, result.stdout, result.stderr, result.exception)


def done(*arguments: object, text: str | bytes | None = None) -> Outcome:
    """Run a command that must succeed."""
    outcome = run(*arguments, text=text)
    assert outcome.code == 0, outcome.err
    return outcome


def stated(**options: object) -> tuple[str, str]:
    """Write a protocol of some options here, and return the words that name it."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    file = Path(f"{'-'.join(options)}-{len(list(Path().glob('*.toml')))}.toml")
    file.write_text("\n".join(lines), "utf-8")
    return "--protocol", str(file)


def refused(*arguments: object, text: str | bytes | None = None) -> str:
    """Run a command that must be refused in one line, and return that line's message."""
    outcome = run(*arguments, text=text)
    assert outcome.code == 1, outcome
    assert outcome.out == "", "a refused command has no result"
    return the_error(outcome.err)


def the_error(err: str, *, after: int = 0) -> str:
    """Return the message of the one line that stderr must hold, after some others."""
    lines = err.splitlines()[after:]
    assert len(lines) == 1, err
    assert lines[0].startswith("error: "), err
    return lines[0].removeprefix("error: ")


@contextmanager
def _logging_kept() -> Iterator[None]:
    """Put back the logger that the command line sets up for its process."""
    logger: Any = logging.getLogger("probekit")
    kept = logger.handlers, logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers, logger.level, logger.propagate = kept
