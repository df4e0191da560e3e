"""The library call behind ``probekit cache import``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probekit.backbone import Inspection
from probekit.base.kinds import KINDS
from probekit.base.machine.buffers import ReusedMemory
from probekit.errors import OptionError
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.extraction_call import as_named, name_task
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.import_session import Importer, ImportTarget
from probekit.extraction.imports.sequences import Sequences, given_sequences, request_files
from probekit.extraction.opening import inspect_target, read_task, read_texts
from probekit.extraction.split_duplicates import say_duplicates
from probekit.store.entry import Entries
from probekit.store.files import typed_path
from probekit.tasks import Task, TextOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


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


def import_states(
    model: "str | Path | PreTrainedModel",
    task: str | None = None,
    states: Any = None,
    *,
    token_ids: Any = None,
    word_offsets: Any = None,
    options: ImportOptions | None = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    examples: Any = None,
    data: str | Path | None = None,
    splits: Sequence[str] | None = None,
    cache: str | Path = "cache",
    overwrite: bool = False,
    restart: bool = False,
    name: str | None = None,
    revision: str | None = None,
    kind: str | None = None,
    text: str | None = None,
    label: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    sentences: str | None = None,
    skip_unlabelled: bool = False,
    progress: bool = False,
) -> Entries:
    """Make entries of hidden states that another program computed.

    They are checked against the text of the task, token by token or word by word, and go the way
    of extraction from there: an import that was interrupted resumes, and complete entries are left
    as they are. The model's weights are not read, only who it is, and its tokenizer.

    Args:
        model: as for ``extract``: whose states they are; with ``options.n_blocks`` any name.
        task: name of a task, or path of the user's own data; what ``examples`` are called.
        states: of one split, or by split: an array for each example, (rows, layers, dim), of NumPy
            or PyTorch, in a list or any iterable; or the path of vLLM's files.
        token_ids: for arrays: the vocabulary ids of the rows of each; by split if ``states`` is.
            Without these and ``word_offsets``, a row is a word.
        word_offsets: for arrays: of each, where its words begin and the last one ends: word j has
            the rows ``offsets[j]`` to ``offsets[j + 1]`` (excluded).
        options: which layers they are, and how they are read and stored.
        tokenizer: of a model in memory, a fast one.
        examples: texts in memory, see ``extract``.
        data: folder with the task's published files; ``None`` reads from the Hub.
        splits: splits to import; ``None`` is those that ``states`` names, or all there are.
        cache: root of the feature cache.
        overwrite: replace complete entries.
        restart: throw away what an unfinished import with other options has finished.
        name: what to call the model in the cache; a model in memory needs one.
        revision: Hub branch, tag or commit of the model.
        kind: for the user's own data, its kind.
        text: for the user's own data, name or index of the text column.
        label: for the user's own data, name or index of the label column.
        separator: for the user's own tables, what divides the columns.
        encoding: for the user's own text files, their encoding.
        sentences: for the user's own tables of words, the column of sentence ids.
        skip_unlabelled: for the user's own data, leave out texts without a label.
        progress: show progress on stderr.

    Returns:
        one entry per split, in the order of the splits.

    Raises:
        ProbekitError: anything that the user can mend; see ``probekit.errors``.
    """
    own = TextOptions(
        kind=kind, text=text, separator=separator, encoding=encoding, sentences=sentences,
        skip_unlabelled=skip_unlabelled,
    )  # fmt: skip
    wanted, given = options or ImportOptions(), as_named(model, tokenizer, name)
    source = GivenStates(states, token_ids, word_offsets, wanted.layers_first)
    splits = source.splits if splits is None else splits
    target = ImportTarget(
        model=str(model) if given is None else given.name, task=name_task(task, examples),
        given=given, examples=examples, own=own, data=None if data is None else Path(data),
        splits=None if splits is None else tuple(splits), revision=revision, label=label,
        name=name, cache=typed_path(cache), overwrite=overwrite, restart=restart,
        typed_states=source.typed, wanted=wanted,
    )  # fmt: skip
    about = read_task(target)
    _check_task(about)
    texts = read_texts(target, about, wanted.limit)
    opened = [source.open(split.name, len(texts)) for split in texts]
    inspection = None if wanted.n_blocks else inspect_target(target, wanted.stored("0"))
    _check_named(target, inspection)
    importing = Importer(target, about, inspection, ReusedMemory(), progress)
    entries = Entries(map(importing.entry, texts, opened))
    say_duplicates(entries, target.cache)
    return entries


def _check_task(task: Task) -> None:
    if KINDS[task.kind].per == "prediction":
        raise OptionError(
            f"{task.name} is for language modelling, whose positions and masks extraction draws "
            "itself: states of it cannot be imported. Run probekit extract."
        )


def _check_named(target: ExtractTarget, inspection: Inspection | None) -> None:
    """Refuse to call a model that is there a mere name."""
    if inspection is None and (target.given is not None or Path(target.model).exists()):
        raise OptionError(
            f"n_blocks is for a model that is known by its name alone, and {target.model} is "
            "there. Leave it out."
        )
