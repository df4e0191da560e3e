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
from probekit.data.batches import PADDED, Batching, TokenBatch
from probekit.data.encoded import EncodedSplit
from probekit.errors import DataError, OptionError
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import describe_cuts
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.import_request import ask_states, named_info, settle_layers
from probekit.extraction.imports.matching import Matched, Specials, match_words
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.imports.token_matching import match_tokens
from probekit.extraction.request_options import ExtractOptions
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
            for block, position in zip(blocks, places, strict=True):
                block[row, : len(states)] = states[:, position]
        return blocks

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
        plain = {option.name: getattr(self, option.name) for option in fields(ExtractTarget)}
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
        states: those of the split.
    """

    states: ImportedStates

    @property
    def backbone(self) -> ImportedStates:
        """The states, in place of a model."""
        return self.states

    @property
    def output_head(self) -> None:
        """None: an import keeps no weights."""

    @classmethod
    def of(
        cls,
        target: ImportTarget,
        task: Task,
        inspection: Inspection | None,
        split: Split,
        sequences: Sequences,
        **more: Any,
    ) -> "ImportSession":
        """Match states with the text of a split, and settle what is stored of them.

        Args:
            target: what is imported.
            task: whose text it is.
            inspection: the model; None where nothing is known of it but its name.
            split: the split.
            sequences: its states.
            more: ``reused`` and ``progress``.

        Raises:
            DataError: the states are not of this text, or of another model.
            OptionError: an option means nothing here, or one is missing.
        """
        options = target.wanted
        if inspection is None:
            assert options.n_blocks is not None
            info = named_info(target.model, options.n_blocks, sequences.shape.dim)
        else:
            info = inspection.info
        layer_ids = settle_layers(sequences, options, info)
        matched = _match(split, sequences, target, inspection)
        request = ask_states(sequences, matched, info, task, options, layer_ids, inspection)
        states = ImportedStates(
            info=request.info, sequences=sequences, matched=matched, layer_ids=layer_ids,
            config={} if inspection is None else inspection.config_json(),
        )  # fmt: skip
        return cls(target=target, request=request, states=states, **more)

    def encode(self, split: Split) -> EncodedSplit:
        """Return the split as the producer of the states read it."""
        encoded = self.states.matched.encoded
        longest = int(encoded.window_lengths.max(initial=0))
        if cuts := describe_cuts(split.name, encoded.counts, longest):
            logger.warning("%s", cuts)
        return encoded


def _match(
    split: Split, sequences: Sequences, target: ImportTarget, inspection: Inspection | None
) -> Matched:
    """Find the sequence of each example of a split."""
    said = target.wanted.special_tokens
    if sequences.form == "token-ids":
        if inspection is None:
            raise OptionError(
                f"{sequences.where} has token ids, which are checked with the model's tokenizer, "
                f"and n_blocks says that {target.model} is a name alone. Leave it out."
            )
        matched = match_tokens(split, sequences, inspection, cast(Specials | None, said))
    elif said is not None:
        raise OptionError(
            f"--special-tokens {said} is for token ids, and {sequences.where} has none. "
            "Leave it out."
        )
    else:
        matched = match_words(split, sequences)
    if (matched.encoded.word_map < 0).all():
        raise DataError(
            f"{sequences.where}: not one word of {split.name} has a row. Have its states "
            "computed again, or correct what says whose they are."
        )
    return matched
