"""States as the user gives them: files or arrays, of one split or by split."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probekit.errors import OptionError
from probekit.extraction.imports.sequences import Sequences, given_sequences, request_files
from probekit.store.files import typed_path


@dataclass(frozen=True)
class GivenStates:
    """The states of an import, not opened yet.

    Attributes:
        states: a path, or arrays; or one of these by split.
        token_ids: of arrays, as `import_states` takes them.
        word_offsets: likewise.
        layers_first: whether layers come before rows.
    """

    states: Any
    token_ids: Any
    word_offsets: Any
    layers_first: bool

    @property
    def splits(self) -> list[str] | None:
        """The splits that they are of; None where they do not say it."""
        return [str(split) for split in self.states] if isinstance(self.states, Mapping) else None

    @property
    def typed(self) -> tuple[str, ...]:
        """The files, as a command line names them."""
        by_split = self.states if isinstance(self.states, Mapping) else {None: self.states}
        return tuple(
            str(one) if split is None else f"{split}={one}"
            for split, one in by_split.items()
            if isinstance(one, str | Path)
        )

    def open(self, split: str, count: int) -> Sequences:
        """Open those of a split.

        Args:
            split: its name.
            count: how many splits are imported.

        Raises:
            OptionError: there are none, or arrays of one split for several.
            MissingFileError: there is no such file.
            DataError: it cannot be read, or arrays and files are not what is expected.
        """
        states = self._part(self.states, split)
        if isinstance(states, str | Path):
            return self._file(typed_path(states))
        if count > 1 and not isinstance(self.states, Mapping):
            raise OptionError(
                f"arrays of one split, and {count} are imported. Name one: splits=['train']; or "
                "give them by split: states={'train': [...], 'dev': [...]}."
            )
        if not isinstance(states, Iterable):
            raise OptionError(
                "expected a path, or an array for each example, (rows, layers, dim); found "
                f"{type(states).__name__}."
            )
        ids, offsets = (self._part(one, split) for one in (self.token_ids, self.word_offsets))
        return given_sequences(states, ids, offsets, layers_first=self.layers_first)

    def _file(self, path: Path) -> Sequences:
        if self.token_ids is not None or self.word_offsets is not None:
            raise OptionError("token_ids and word_offsets are for arrays; files hold their own.")
        if self.layers_first:
            raise OptionError("layers_first is for arrays; vLLM's files have rows first.")
        return request_files(path)

    @staticmethod
    def _part(given: Any, split: str) -> Any:
        if not isinstance(given, Mapping):
            return given
        if split not in given:
            raise OptionError(f"no states of the split {split}; found: {', '.join(given)}.")
        return given[split]
