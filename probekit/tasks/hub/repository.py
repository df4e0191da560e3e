"""Where a task lies on the Hugging Face Hub, and how its columns are called there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from probekit.base.kinds import HUB_SPLITS


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """A Hub repository that holds a task as files that ``datasets`` reads without a script.

    Attributes:
        repo: "org/name".
        labels: label column to the repository's feature.
        words: the feature with the list of words.
        texts: the feature with the text, or the two of a pair, instead of ``words``.
        config: the repository's configuration, or None for its only one.
        revision: branch, tag or commit; None is the main branch.
        numbers: label columns that hold numbers, not classes.
        ids: features that hold the examples' own ids; the first that is there is used.
        names: label column to published label names, for a repository that stores numbers and
            has lost their names.
        renamed: label column to the Hub's label names, each with the one that is used here.
        splits: split to the repository's name for it.
    """

    repo: str
    labels: Mapping[str, str]
    words: str = "tokens"
    texts: tuple[str, ...] = ()
    config: str | None = None
    revision: str | None = None
    numbers: tuple[str, ...] = ()
    ids: Sequence[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=lambda: HUB_SPLITS)

    def __str__(self) -> str:
        """Return "org/name@revision (config)" as messages name it."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.repo}{revision}" + (f" ({self.config})" if self.config else "")
