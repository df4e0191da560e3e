"""Messages: on stderr above bars, and all of them in the file of --log-file."""

import re

import pytest

from tests.cli.console import done, run
from tests.planted import plant_all

STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
TRAIN = ("train", "planted", "conll", "--head", "last", "--shots", "4", "--l2", "1")


@pytest.fixture(autouse=True)
def planted(here):
    return plant_all(here / "cache")


def lines(file):
    """The messages of a log file, each of which begins with its time."""
    found = file.read_text().splitlines()
    assert all(STAMP.match(line) for line in found)
    return [STAMP.sub("", line) for line in found]


def test_what_is_said_is_in_the_file_too(here):
    outcome = done(*TRAIN, "--log-file", "logs/a.log")
    assert lines(here / "logs/a.log") == outcome.err.splitlines()
    assert outcome.err.startswith("[1/1] last, seed 0: dev ")


def test_the_file_goes_on_and_is_not_quiet(here):
    done(*TRAIN, "--log-file", "a.log")
    assert done(*TRAIN, "-q", "--log-file", "a.log").err == ""
    first, where, again, _ = lines(here / "a.log")
    assert first.startswith("[1/1] last, seed 0") and where.startswith("records: ")
    assert again.startswith("1 of 1 runs are recorded")


def test_an_error_is_the_last_line(here):
    outcome = run(*TRAIN, "--label", "none", "--log-file", "a.log")
    assert outcome.code == 1
    assert lines(here / "a.log")[-1] == outcome.err.splitlines()[-1]
    assert outcome.err.startswith("error: ")


def test_a_file_that_cannot_be_written(here):
    outcome = run(*TRAIN, "--log-file", "cache")
    assert outcome.code == 1
    assert outcome.err.startswith("error: --log-file cache: cannot be written (Is a directory)")
    assert not (here / "runs").exists()
