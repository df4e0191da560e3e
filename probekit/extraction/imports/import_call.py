"""The library call behind ``probekit cache import``."""

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from probekit.backbone import Inspection
from probekit.base.kinds import KINDS
from probekit.base.machine.buffers import ReusedMemory
from probekit.errors import OptionError
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import describe_cuts
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.extraction_call import as_named, name_task
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.import_request import ImportRequest, make_request, named_info
from probekit.extraction.imports.imported_states import ImportedStates
from probekit.extraction.imports.layer_numbers import settle_layers
from probekit.extraction.imports.matching import Matched, Specials, match_words
from probekit.extraction.imports.sentence_file import SUFFIXES, sentence_file
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.imports.tensor_sequences import given_sequences, tensor_sequences
from probekit.extraction.imports.token_matching import match_tokens
from probekit.extraction.opening import inspect_target, read_task, read_texts
from probekit.extraction.plan import Plan, make_plan
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.write import Progress
from probekit.store.entry import Entries, Entry
from probekit.tasks import Split, Task, TextOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ImportTarget(ExtractTarget):
    """A model, a task and states as the user names them.

    Attributes:
        typed_states: the states, as a command line names them; none for arrays in memory.
        wanted: how they are read and stored.
    """

    typed_states: tuple[str, ...] = ()
    wanted: ImportOptions = field(default_factory=ImportOptions)

    def command(self, options: ExtractOptions) -> str:
        """Return what imports them in another dtype: a command line, or Python if need be."""
        wanted = replace(self.wanted, dtype=options.dtype)
        if self.given is not None or self.examples is not None or not self.typed_states:
            return f"probekit.import_states(..., options=probekit.{wanted!r})"
        plain = {one.name: getattr(self, one.name) for one in fields(ExtractTarget)}
        if any("=" in states for states in self.typed_states):
            plain["splits"] = None  # they say their splits
        extract = shlex.split(ExtractTarget(**plain).command(ExtractOptions()))
        model_and_task, others = extract[2:4], extract[4:]
        words = ["probekit", "cache", "import", *model_and_task, *self.typed_states, *others]
        return shlex.join([*words, *wanted.words()])


@dataclass(frozen=True, kw_only=True)
class ImportSession(EntrySession):
    """Makes the entry of one split from states that are there.

    Attributes:
        request: what is asked of them.
        states: the states.
    """

    request: ImportRequest
    states: ImportedStates

    @property
    def backbone(self) -> ImportedStates:
        """The states, in place of a model."""
        return self.states

    @property
    def output_head(self) -> None:
        """None: an import keeps no weights."""

    def plan(self, split: Split) -> Plan:
        """Lay out the entry of the split."""
        request, encoded = self.request, self.states.matched.encoded
        longest = int(encoded.window_lengths.max(initial=0))
        if cuts := describe_cuts(split.name, encoded.counts, longest):
            logger.warning("%s", cuts)
        pooling = request.pooling or "first"  # a word of one row is that row in any way
        return make_plan(encoded, request.info, request.options, request.keep, pooling)


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
        states: of one split, or by split: the path of a file or folder, or a list with an array
            for each example, (rows, layers, dim), of NumPy or PyTorch.
        token_ids: for arrays: the vocabulary ids of the rows of each, in a list; by split if
            ``states`` is. Without these and ``word_offsets``, a row is a word.
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
    by_split = dict(states) if isinstance(states, Mapping) else {None: states}
    typed = tuple(
        str(one) if split is None else f"{split}={one}"
        for split, one in by_split.items()
        if isinstance(one, str | Path)
    )
    if splits is None and None not in by_split:
        splits = [str(split) for split in by_split]
    target = ImportTarget(
        model=str(model) if given is None else given.name, task=name_task(task, examples),
        given=given, examples=examples, own=own, data=None if data is None else Path(data),
        splits=None if splits is None else tuple(splits), revision=revision, label=label,
        name=name, cache=Path(cache), overwrite=overwrite, restart=restart,
        typed_states=typed, wanted=wanted,
    )  # fmt: skip
    about = read_task(target)
    _check_task(about)
    texts = read_texts(target, about, wanted.limit)
    source = _Source(states, token_ids, word_offsets, wanted)
    opened = [source.of(split.name, len(texts)) for split in texts]
    inspection = None if wanted.n_blocks else inspect_target(target, ExtractOptions())
    _check_named(target, inspection)
    importing = _Importing(target, about, inspection, ReusedMemory(), progress)
    return Entries(map(importing.entry, texts, opened))


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
            f"--n-blocks is for a model that is known by its name alone, and {target.model} is "
            "there. Leave it out."
        )


@dataclass(frozen=True)
class _Source:
    """The states as the user gives them: of one split, or by split."""

    states: Any
    token_ids: Any
    word_offsets: Any
    options: ImportOptions

    def of(self, split: str, count: int) -> Sequences:
        """Open those of a split.

        Args:
            split: its name.
            count: how many splits are imported.

        Raises:
            OptionError: there are none, or arrays of one split for several.
        """
        states, first = self._part(self.states, split), self.options.layers_first
        if isinstance(states, str | Path):
            path = Path(states).expanduser()
            if self.token_ids is not None or self.word_offsets is not None:
                raise OptionError(
                    "token_ids and word_offsets are for arrays; files hold their own."
                )
            if path.suffix in SUFFIXES:
                return sentence_file(path)
            return tensor_sequences(path, layers_first=first)
        if count > 1 and not isinstance(self.states, Mapping):
            raise OptionError(
                f"arrays of one split, and {count} are imported. Name one: splits=['train']; or "
                "give them by split: states={'train': [...], 'dev': [...]}."
            )
        if not isinstance(states, Sequence):
            raise OptionError(
                "expected a path, or a list with an array for each example, (rows, layers, dim); "
                f"found {type(states).__name__}."
            )
        ids, offsets = (self._part(one, split) for one in (self.token_ids, self.word_offsets))
        return given_sequences(states, ids, offsets, layers_first=first)

    @staticmethod
    def _part(given: Any, split: str) -> Any:
        if not isinstance(given, Mapping):
            return given
        if split not in given:
            raise OptionError(f"no states of the split {split}; found: {', '.join(given)}.")
        return given[split]


@dataclass(frozen=True)
class _Importing:
    """What all splits of one import share."""

    target: ImportTarget
    task: Task
    inspection: Inspection | None
    reused: ReusedMemory
    progress: bool

    def entry(self, split: Split, sequences: Sequences) -> Entry:
        """Make the entry of a split."""
        options = self.target.wanted
        if self.inspection is not None:
            info = self.inspection.info
        else:
            assert options.n_blocks is not None
            info = named_info(self.target.model, options.n_blocks, sequences.shape.dim)
        layer_ids = settle_layers(sequences, options, info)
        matched = self._match(split, sequences)
        request = make_request(
            sequences, matched, info, self.task, options, layer_ids, self.inspection
        )
        config = {} if self.inspection is None else self.inspection.config_json()
        states = ImportedStates(
            info=request.info, sequences=sequences, matched=matched, layer_ids=layer_ids,
            config=config,
        )  # fmt: skip
        session = ImportSession(
            target=self.target, request=request, states=states, reused=self.reused,
            progress=Progress(self.progress),
        )  # fmt: skip
        entry = session.extract(split)
        assert entry is not None, "an import has no shards"
        return entry

    def _match(self, split: Split, sequences: Sequences) -> Matched:
        said = self.target.wanted.special_tokens
        if sequences.form != "token-ids":
            if said is not None:
                raise OptionError(
                    f"--special-tokens {said} is for token ids, and {sequences.where} has none. "
                    "Leave it out."
                )
            return match_words(split, sequences)
        if self.inspection is None:
            raise OptionError(
                f"{sequences.where} has token ids, which are checked with the model's tokenizer, "
                f"and --n-blocks says that {self.target.model} is a name alone. Leave it out."
            )
        return match_tokens(split, sequences, self.inspection, cast(Specials | None, said))
