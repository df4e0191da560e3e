"""Open a session over a text and a model: what the model reads of it, before it is loaded."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from probekit.backbone import Backbone, Inspection, choose_device, inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.backbone.remembered import inspect_and_remember
from probekit.base.kinds import OUTPUT_HEAD, TOKENS
from probekit.base.tensors import ReusedMemory
from probekit.data.encoded import EncodedSplit
from probekit.data.token_choice import ROLES
from probekit.errors import DataError, MissingFileError, OptionError
from probekit.extraction.compute import Progress
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.request import ask_model, choose_max_length
from probekit.extraction.request_options import ExtractOptions
from probekit.probe.model_parts import OutputHead
from probekit.tasks import Split, Task, examples_task, get_task, is_own
from probekit.tasks.split_parts import SplitParts, read_split
from probekit.tasks.task import Choice

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Session(EntrySession):
    """Extracts with a model that runs, and is loaded when first needed.

    Attributes:
        inspection: the model's facts and tokenizers.
        device: where the model runs; where a small copy is tried, if the target lays it out.
    """

    inspection: Inspection
    device: str

    @cached_property
    def backbone(self) -> Backbone:
        """The model, loaded."""
        return load_backbone(
            self.inspection,
            device=self.device,
            compute_dtype=self.request.options.compute_dtype,
            device_map=self.target.device_map,
        )

    @cached_property
    def output_head(self) -> OutputHead | None:
        """The output head that entries keep, if any.

        Raises:
            BackboneError: the model has none.
        """
        if OUTPUT_HEAD not in self.request.keep:
            return None
        if self.request.options.tie is not None:
            return self.backbone.tied_head()
        return read_output_head(self.inspection)

    @property
    def chat_template(self) -> str | None:
        """The sha256 of the tokenizer's chat template, if it has one."""
        return self.inspection.chat_template

    def encode(self, split: Split) -> EncodedSplit:
        """Tokenise a split, its words, its texts or blocks with predictions.

        Raises:
            BackboneError: the tokenizer does not fit the form of prediction.
            OptionError: a limit that the model does not have, or that leaves no room for text.
            DataError: an example cannot be read, or is too long and ``overlong`` is ``error``; or
                no token is predicted.
        """
        request, options = self.request, self.request.options
        masking, limit = request.masking, choose_max_length(options, request.info)
        self._check_conversations(split)
        encoded = self.inspection.encode(
            split.examples,
            max_length=limit,
            overlong=options.overlong,
            masking=masking,
            only=options.only,
            conversations=split.of_conversations,
        )
        if options.only is not None:
            none, count = int((encoded.rows[TOKENS] == 0).sum()), len(split.examples)
            said = f"--only {options.only} keeps no token of"
            if none == count:
                raise DataError(f"{split.origin}: {said} any text.")
            if none:
                told = f"{said} {none} of {count} texts; their row is zeros."
                logger.warning("%s: %s", split.title, told)
        if masking is not None and not encoded.counts["predicted"]:
            every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
            raise DataError(
                f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too "
                "short or too few."
            )
        say_cuts(split.title, encoded.counts, limit)
        return encoded

    def _check_conversations(self, split: Split) -> None:
        """Refuse conversations where plain text is read, and the other way round."""
        only = self.request.options.only
        if self.request.masking is not None and split.of_conversations:
            raise DataError(
                f"{split.origin}: language modelling reads plain text, and these are "
                "conversations. Put what is to be read into a column of text."
            )
        if only in ROLES and not split.of_conversations:
            raise OptionError(
                f"--only {only} chooses messages of conversations, but the texts of {split.origin} "
                "are not conversations (lists of messages with role and content). Leave --only out."
            )


def say_cuts(split: str, counts: Mapping[str, int], limit: int) -> None:
    """Say what a split loses to the limit, if anything.

    Args:
        split: what it is called.
        counts: of its manifest.
        limit: most subwords of a window.
    """
    if texts := counts.get("truncated_examples"):
        logger.warning(
            f"{split}: {texts:,} of {counts['examples']:,} texts are cut at {limit} subwords."
        )
    elif words := counts.get("truncated_words"):
        logger.warning(
            f"{split}: {words:,} of {counts['words']:,} words do not fit into windows of {limit} "
            "subwords. A word that is cut has the states of the rest of it. One that is cut off "
            "whole has a row of zeros: no head is trained on it, but scores count it."
        )


def open_session(
    target: ExtractTarget,
    options: ExtractOptions | None = None,
    *,
    task: Task | None = None,
    progress: bool = False,
    heard: Callable[[int], object] = lambda count: None,
) -> tuple[Session, list[Split | SplitParts]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Errors are those of `extract`.

    Args:
        target: model and task, and where entries go.
        options: what is asked for.
        task: that of the target, where it is known.
        progress: show progress on stderr.
        heard: called with the number of subwords that were just read.

    Returns:
        the session and the splits, in their order; of one that is too large to be read at once
        what reads it in parts.
    """
    options = options or ExtractOptions()
    task = read_task(target, task)
    inspection = inspect_target(target, options)
    request = ask_model(inspection, task, options)
    texts = read_texts(target, task, options.limit)
    device = choose_device(inspection, target.device)
    session = Session(
        target=target,
        request=request,
        inspection=inspection,
        device=device,
        reused=ReusedMemory(pinned=device.startswith("cuda")),
        progress=Progress(progress, heard),
    )
    return session, texts


def read_task(target: ExtractTarget, task: Task | None = None) -> Task:
    """Return the task that is meant.

    Raises:
        OptionError: a folder of published files for data of the user's own.
    """
    if task is None and target.examples is None:
        task = get_task(target.task, target.own, target.label)
    elif task is None:
        choice = Choice(label=target.label, **target.own.given)
        task = examples_task(target.examples, target.task, choice)
    if target.data is not None and is_own(task):
        raise OptionError(f"{target.task} is the data already. Leave --data {target.data} out.")
    return task


def inspect_target(target: ExtractTarget, options: ExtractOptions) -> Inspection:
    """Learn the model's facts, and whether it can go by its name.

    Raises:
        OptionError: a revision of a model in memory, or a name that is another model's.
    """
    how: dict[str, Any] = {
        "random_init": options.random_init,
        "part": options.part,
        "quantize": options.quantize,
        "trust_remote_code": target.trust_remote_code,
    }
    if target.given is None:
        return inspect_and_remember(target.model, revision=target.revision, **how)
    if target.revision is not None:
        raise OptionError(
            f"--revision {target.revision} is for a model of the Hub, and this one was given in "
            "memory. Leave it out."
        )
    inspection = inspect_backbone(target.given, **how)
    target.check_name(inspection.info.identity.to_json())
    return inspection


def read_texts(target: ExtractTarget, task: Task, limit: int | None) -> list[Split | SplitParts]:
    """Read the splits that are asked for; of all, those that are there.

    Returns:
        the splits; what reads one in parts, where it is too large to be read at once.

    Raises:
        OptionError: none is asked for.
        MissingFileError: one is not there, or none is.
    """
    if target.splits is not None and not target.splits:
        raise OptionError(f"--split names no split of {task.name}: {', '.join(task.splits)}.")
    texts: list[Split | SplitParts] = []
    missing: list[MissingFileError] = []
    for name in task.splits if target.splits is None else target.splits:
        try:
            texts.append(read_split(task, name, target.data, limit))
        except MissingFileError as error:
            if target.splits is not None:
                raise
            missing.append(error)
    if not texts:
        raise missing[0]
    for reason in missing:
        logger.info("left out: %s", reason)
    return texts
