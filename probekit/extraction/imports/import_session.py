"""What makes entries of states that are there: as an extraction does, with them for a model."""

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from probekit.backbone import BackboneInfo, Inspection
from probekit.base.machine.buffers import ReusedMemory
from probekit.data.batches import PADDED, Batching, TokenBatch
from probekit.errors import DataError, OptionError
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import describe_cuts
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.import_request import ImportRequest, make_request, named_info
from probekit.extraction.imports.matching import Matched, Specials, match_words
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.imports.token_matching import match_tokens
from probekit.extraction.plan import Plan, make_plan
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.write import Progress
from probekit.store.entry import Entry
from probekit.tasks import Split, Task

logger = logging.getLogger(__name__)


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
        return f"They stand so in {self.sequences.where}: have them computed again."

    def states_of(
        self, batch: TokenBatch, layers: Sequence[int]
    ) -> list[Float[Tensor, "batch time dim"]]:
        """Read the states of a batch's windows; padding is zeros."""
        shape = (*batch.input_ids.shape, self.info.dim)
        places = [self.layer_ids.index(layer) for layer in layers]
        blocks = [torch.zeros(shape, dtype=self.compute_dtype) for _ in layers]
        for row, sequence in enumerate(self.matched.sequence[batch.windows].tolist()):
            states = self.sequences.read(sequence)
            for block, place in zip(blocks, places, strict=True):
                block[row, : len(states)] = states[:, place]
        return blocks

    def config_json(self) -> dict[str, Any]:
        """Return the model's configuration."""
        return self.config


def settle_layers(
    sequences: Sequences, options: ImportOptions, info: BackboneInfo
) -> tuple[int, ...]:
    """Return the numbers of the file's layers, in its order.

    Raises:
        OptionError: they are not said, or do not fit.
        DataError: the states are of another width than the model's.
    """
    count, dim = sequences.shape.layers, sequences.shape.dim
    if dim != info.dim:
        raise DataError(
            f"{sequences.where}: the states are {dim} wide, and those of {info.name} {info.dim}. "
            "They are of another model, or their axes are in another order (layers_first)."
        )
    numbers = options.numbers(info.n_blocks)
    if numbers is None:
        raise OptionError(
            f"{sequences.where} has {count} layers. Give their numbers as "
            f"transformers counts hidden_states: --layer-ids. {_suggested(count, info)}"
        )
    wrong = [number for number in numbers if not 0 <= number <= info.n_blocks]
    if len(numbers) != count or wrong or len(set(numbers)) < len(numbers):
        raise OptionError(
            f"the layers {','.join(map(str, numbers))} are said of {sequences.where}, which has "
            f"{count} layers, of {info.name}, whose layers are 0 (embeddings) to {info.n_blocks}. "
            f"Expected the number of each, once. {_suggested(count, info)}"
        )
    return numbers


def _suggested(count: int, info: BackboneInfo) -> str:
    """Return what a number of layers suggests."""
    blocks = info.n_blocks
    if count == blocks + 1:
        return f"{count} layers are as many as {info.name} has: 0:{count} if they are all of them."
    if count == blocks:
        return (
            f"{count} layers are one fewer than {info.name} has: 1:{count + 1} if the embeddings "
            f"are left out, 0:{count} if the last one is."
        )
    return f"{info.name} has {blocks + 1} layers, 0 to {blocks}; whoever computed them knows which."


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


@dataclass(frozen=True)
class Importer:
    """Makes the entry of each split of one import.

    Attributes:
        target: what is imported.
        task: whose text it is.
        inspection: the model; None where nothing is known of it but its name.
        reused: memory for the rows of all splits.
        progress: whether progress is shown on stderr.
    """

    target: ImportTarget
    task: Task
    inspection: Inspection | None
    reused: ReusedMemory
    progress: bool

    def entry(self, split: Split, sequences: Sequences) -> Entry:
        """Make the entry of a split."""
        target, options = self.target, self.target.wanted
        info = self._info(sequences.shape.dim)
        layer_ids = settle_layers(sequences, options, info)
        matched = self._match(split, sequences)
        if (matched.encoded.word_map < 0).all():
            raise DataError(
                f"{sequences.where}: not one word of {split.name} has a row. Have its states "
                "computed again, or correct what says whose they are."
            )
        request = make_request(
            sequences, matched, info, self.task, options, layer_ids, self.inspection
        )
        states = ImportedStates(
            info=request.info, sequences=sequences, matched=matched, layer_ids=layer_ids,
            config={} if self.inspection is None else self.inspection.config_json(),
        )  # fmt: skip
        session = ImportSession(
            target=target, request=request, states=states, reused=self.reused,
            progress=Progress(self.progress),
        )  # fmt: skip
        entry = session.extract(split)
        assert entry is not None, "an import has no shards"
        return entry

    def _info(self, dim: int) -> BackboneInfo:
        """Return the model's facts."""
        if self.inspection is not None:
            return self.inspection.info
        n_blocks = self.target.wanted.n_blocks
        assert n_blocks is not None
        return named_info(self.target.model, n_blocks, dim)

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
                f"and n_blocks says that {self.target.model} is a name alone. Leave it out."
            )
        return match_tokens(split, sequences, self.inspection, cast(Specials | None, said))
