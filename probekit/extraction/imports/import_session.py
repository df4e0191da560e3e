"""The call behind ``probekit cache import``, and what makes entries of given states."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone import BackboneInfo, Inspection
from probekit.backbone.states import NO_POINTS, PointLayers
from probekit.base.kinds import KINDS
from probekit.base.registry import PathName
from probekit.base.tensors import ReusedMemory
from probekit.data.batches import PADDED, Batching, TokenBatch
from probekit.data.encoded import EncodedSplit
from probekit.errors import DataError, OptionError
from probekit.extraction.compute import Progress
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.imports.import_request import ask_states, named_info, settle_layers
from probekit.extraction.imports.sequences import Sequences, given_sequences, request_files
from probekit.extraction.imports.token_matching import Matched, Specials, match_tokens, match_words
from probekit.extraction.opening import inspect_target, read_task, read_texts, say_cuts
from probekit.extraction.request import Request
from probekit.extraction.request_options import ExtractOptions, ImportOptions
from probekit.features.duplicates import say_duplicates
from probekit.store.entry import Entries
from probekit.store.files import typed_path
from probekit.tasks import Split, Task, TextOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedStates:
    """A `StateSource` that reads what another program wrote, one sequence at a time.

    Attributes:
        info: the facts of the model whose states they are.
        sequences: the states.
        matched: which sequence a window is.
        layer_ids: the numbers of the sequences' layers, in their order.
        config: the model's configuration, where it is known.
    """

    info: BackboneInfo
    sequences: Sequences
    matched: Matched
    layer_ids: tuple[int, ...]
    config: dict[str, Any]

    device = torch.device("cpu")
    batching: Batching = PADDED
    pad_id = 0
    final_norm: None = None
    computed_on = "imported"

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the states."""
        return self.sequences.shape.dtype

    @property
    def compute_dtype_name(self) -> str:
        """The same as manifests write it."""
        return str(self.compute_dtype).removeprefix("torch.")

    @property
    def overflow(self) -> str:
        """Where values that are not finite come from."""
        return f"They are like that in {self.sequences.where}: have them computed again."

    def states_of(
        self,
        batch: TokenBatch,
        layers: Sequence[int],
        points: PointLayers = NO_POINTS,
    ) -> list[Float[Tensor, "batch time dim"]]:
        """Read the states of a batch's windows; padding is zeros."""
        assert not points, "imported states are of the residual stream"
        shape = (*batch.input_ids.shape, self.info.dim)
        places = [self.layer_ids.index(layer) for layer in layers]
        blocks = [torch.zeros(shape, dtype=self.compute_dtype) for _ in layers]
        for row, sequence in enumerate(self.matched.sequence[batch.windows].tolist()):
            states = self.sequences.read(sequence)
            for block, position in zip(blocks, places, strict=True):
                block[row, : len(states)] = states[:, position]
        return blocks

    def width_at(self, point: str) -> int:
        """Return the model's width: imported states are of the residual stream."""
        return self.info.dim

    def config_json(self) -> dict[str, Any]:
        """Return the model's configuration."""
        return self.config


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
        named = any("=" in states for states in self.typed_states)  # they say their splits
        words = (replace(self, splits=None) if named else self).words()
        return shlex.join(
            ["probekit", "cache", "import", *words, *self.typed_states, *wanted.words()]
        )


@dataclass(frozen=True, kw_only=True)
class ImportSession(EntrySession):
    """Makes the entry of one split from states that are there.

    Attributes:
        states: those of the split.
    """

    states: ImportedStates

    @property
    def backbone(self) -> ImportedStates:
        """The states, in place of a model."""
        return self.states

    def encode(self, split: Split) -> EncodedSplit:
        """Return the split as the producer of the states read it."""
        encoded = self.states.matched.encoded
        longest = int(encoded.window_lengths.max(initial=0))
        say_cuts(split.name, encoded.counts, longest)
        return encoded


def import_states(
    model: "PathName | PreTrainedModel",
    task: PathName | None = None,
    states: Any = None,
    *,
    token_ids: Any = None,
    word_offsets: Any = None,
    options: ImportOptions | None = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    examples: Any = None,
    data: PathName | None = None,
    splits: Sequence[str] | None = None,
    cache: PathName = "cache",
    overwrite: bool = False,
    restart: bool = False,
    name: str | None = None,
    revision: str | None = None,
    kind: str | None = None,
    text: str | None = None,
    label: str | None = None,
    separator: str | None = None,
    sentences: str | None = None,
    skip_unlabelled: bool = False,
    skip_blank: bool = False,
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
        sentences: for the user's own tables of words, the column of sentence ids.
        skip_unlabelled: for the user's own data, leave out texts without a label.
        skip_blank: for the user's own data, leave out rows without text.
        progress: show progress on stderr.

    Returns:
        one entry per split, in the order of the splits.

    Raises:
        ProbekitError: anything that the user can mend; see ``probekit.errors``.
    """
    text_options = TextOptions(
        kind=kind, text=text, separator=separator, sentences=sentences,
        skip_unlabelled=skip_unlabelled, skip_blank=skip_blank,
    )  # fmt: skip
    by_split = states if isinstance(states, Mapping) else {None: states}
    if splits is None and isinstance(states, Mapping):
        splits = [*map(str, states)]
    target = ImportTarget.of(
        model, task, tokenizer=tokenizer, examples=examples, own=text_options, data=data,
        splits=splits, revision=revision, label=label, name=name, cache=cache,
        overwrite=overwrite, restart=restart, wanted=options or ImportOptions(),
        typed_states=tuple(
            str(path) if split is None else f"{split}={path}"
            for split, path in by_split.items()
            if isinstance(path, str | PathLike)
        ),
    )  # fmt: skip
    return _import_splits(target, states, token_ids, word_offsets, progress=progress)


def _import_splits(
    target: ImportTarget, states: Any, token_ids: Any, word_offsets: Any, *, progress: bool
) -> Entries:
    """Make the entries of a target; arguments and errors are those of `import_states`."""
    task, wanted = read_task(target), target.wanted
    if KINDS[task.kind].per == "prediction":
        raise OptionError(
            f"{task.name} is for language modelling: extraction itself draws its positions and "
            "masks, so its states cannot be imported. Run probekit extract."
        )
    texts = [
        split if isinstance(split, Split) else task.read(split.name).first(wanted.limit)
        for split in read_texts(target, task, wanted.limit)
    ]  # states are given for a split as a whole
    if len(texts) > 1 and not isinstance(states, Mapping | str | PathLike):
        raise OptionError(
            f"the arrays are of one split, but {len(texts)} splits are imported. Name one: "
            f"splits=['train']; or give arrays by split: states={{'train': [...], 'dev': [...]}}."
        )
    opened = [
        _open(
            *(_of_split(given, split.name) for given in (states, token_ids, word_offsets)),
            layers_first=wanted.layers_first,
        )
        for split in texts
    ]
    inspection = None if wanted.n_blocks else inspect_target(target, wanted.stored("0"))
    if inspection is None and (target.given is not None or Path(target.model).exists()):
        raise OptionError(
            f"n_blocks is for a model of which only the name is known, but {target.model} is "
            "here. Leave n_blocks out."
        )
    entries, reused = Entries(), ReusedMemory()
    for split, sequences in zip(texts, opened, strict=True):
        read, request = _imported(target, task, inspection, split, sequences)
        session = ImportSession(
            target=target, request=request, states=read, reused=reused, progress=Progress(progress)
        )
        entry = session.extract(split)
        assert entry is not None, "an import has no shards"
        entries.append(entry)
    say_duplicates(entries, target.cache)
    return entries


def _imported(
    target: ImportTarget,
    task: Task,
    inspection: Inspection | None,
    split: Split,
    sequences: Sequences,
) -> tuple[ImportedStates, Request]:
    """Match the sequences of a split with its text, and settle what is stored of them."""
    options = target.wanted
    if inspection is None:
        assert options.n_blocks is not None
        info, config = named_info(target.model, options.n_blocks, sequences.shape.dim), {}
    else:
        info, config = inspection.info, inspection.config_json()
    layer_ids = settle_layers(sequences, options, info)
    matched = _match(split, sequences, target, inspection)
    request = ask_states(sequences, matched, info, task, options, layer_ids, inspection)
    states = ImportedStates(
        info=request.info, sequences=sequences, matched=matched, layer_ids=layer_ids, config=config
    )
    return states, request


def _match(
    split: Split, sequences: Sequences, target: ImportTarget, inspection: Inspection | None
) -> Matched:
    """Find the sequence of each example of a split."""
    said = target.wanted.special_tokens
    if sequences.form == "token-ids":
        if inspection is None:
            raise OptionError(
                f"{sequences.where} has token ids, which need the model's tokenizer, but n_blocks "
                f"says that only the name of {target.model} is known. Leave n_blocks out."
            )
        matched = match_tokens(split, sequences, inspection, cast(Specials | None, said))
    elif said is not None:
        raise OptionError(
            f"--special-tokens {said} is for token ids, but {sequences.where} has none: leave it "
            "out."
        )
    else:
        matched = match_words(split, sequences)
    if (matched.encoded.word_map < 0).all():
        raise DataError(
            f"{sequences.where}: not one word of {split.name} has a row. Compute its states "
            "again, or correct the token ids or word offsets."
        )
    return matched


def _of_split(given: Any, split: str) -> Any:
    """Return what is given of a split."""
    if not isinstance(given, Mapping):
        return given
    if split not in given:
        raise OptionError(f"no states of the split {split}; found: {', '.join(given)}.")
    return given[split]


def _open(states: Any, token_ids: Any, word_offsets: Any, *, layers_first: bool) -> Sequences:
    """Open the states of a split: a path, or arrays with what says whose their rows are.

    Raises:
        OptionError: they are neither, or an option is for arrays.
        MissingFileError: there is no such file.
        DataError: it cannot be read, or arrays and files are not what is expected.
    """
    if isinstance(states, str | PathLike):
        if token_ids is not None or word_offsets is not None:
            raise OptionError("token_ids and word_offsets are for arrays; files hold their own.")
        if layers_first:
            raise OptionError("layers_first is for arrays; vLLM's files have rows first.")
        return request_files(typed_path(states))
    if not isinstance(states, Iterable):
        raise OptionError(
            "expected a path, or an array for each example, (rows, layers, dim); found "
            f"{type(states).__name__}."
        )
    return given_sequences(states, token_ids, word_offsets, layers_first=layers_first)
