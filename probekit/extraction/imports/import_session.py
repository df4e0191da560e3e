"""What makes entries of states that are there: as an extraction does, with them for a model."""

import logging
import shlex
from dataclasses import dataclass, field, fields, replace
from typing import cast

from probekit.backbone import BackboneInfo, Inspection
from probekit.base.machine.buffers import ReusedMemory
from probekit.errors import DataError, OptionError
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import describe_cuts
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.import_request import ImportRequest, make_request, named_info
from probekit.extraction.imports.imported_states import ImportedStates
from probekit.extraction.imports.layer_numbers import settle_layers
from probekit.extraction.imports.matching import Matched, Specials, match_words
from probekit.extraction.imports.sequences import Sequences
from probekit.extraction.imports.token_matching import match_tokens
from probekit.extraction.plan import Plan, make_plan
from probekit.extraction.request_options import ExtractOptions
from probekit.extraction.write import Progress
from probekit.store.entry import Entry
from probekit.tasks import Split, Task

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
