"""The errors a user can cause: each says what, where, expected, found, and what to do.

Every class is also the builtin that a caller would expect, so ``except ValueError`` and
``except FileNotFoundError`` keep working in scripts.
"""

import re


class ProbekitError(Exception):
    """Base of every error that probekit raises on purpose."""

    def __str__(self) -> str:
        """Return the message alone (``KeyError`` would quote it)."""
        return str(self.args[0]) if self.args else type(self).__name__


class OptionError(ProbekitError, ValueError):
    """An option has a value that cannot be used."""


class UnknownNameError(ProbekitError, KeyError, ValueError):
    """A task, head, decoder, metric, backend or label name that no registry holds."""


class PluginError(ProbekitError, ImportError):
    """A plug-in cannot be loaded, breaks its contract, or takes a name that exists."""


class DataError(ProbekitError, ValueError):
    """A text or label file does not hold what its format promises."""


class MissingFileError(ProbekitError, FileNotFoundError):
    """A file or folder that the user named, or that a task needs, does not exist."""


class HubError(ProbekitError, OSError):
    """A Hub repository is missing, gated or unreachable."""


class BackboneError(ProbekitError, ValueError):
    """A model cannot serve as a backbone (kind, tokenizer, weights)."""


class EntryError(ProbekitError, ValueError):
    """A cache entry is damaged, unfinished, of another format, or does not fit the request."""


EXTRACT_AGAIN = "Extract the entry again with --overwrite."
"""What to do about a damaged entry."""


class EntryVersionError(EntryError):
    """A cache entry is of another format version."""


class EntryNotFoundError(ProbekitError, FileNotFoundError):
    """No cache entry matches, or several do and none was chosen."""


class EntryLockedError(ProbekitError, BlockingIOError):
    """Another process is writing the same cache entry."""


class StorageError(ProbekitError, OSError):
    """The cache folder cannot be written: no permission, or not enough free space."""


class StateRangeError(ProbekitError, OverflowError):
    """A hidden state is non-finite, or too large for the stored dtype."""


class RecordError(ProbekitError, ValueError):
    """A results file does not hold records, or holds none that fit the request."""


class EngineError(ProbekitError, RuntimeError):
    """A worker could not finish its task for a reason that lies outside the task."""


def upgrade_to(version: object) -> str:
    """Return what to do about a file of a newer format: the version that wrote it reads it.

    Args:
        version: of probekit, as the file says it, which may say anything.
    """
    if isinstance(version, str) and re.fullmatch(r"\d[\w.+-]{0,30}", version):
        return f"it was written by probekit {version}: upgrade to that version or a newer one"
    return "upgrade probekit"


def reason_of(error: Exception) -> str:
    """Return another library's error, short enough for a message: ``ValueError: no such key``."""
    text = " ".join(clause_of(error).split()) or "no message"
    return f"{type(error).__name__}: {text:.200}"


def clause_of(error: object) -> str:
    """Return a message without its final stop, for a sentence that it is a part of."""
    return str(error).rstrip(". ")
