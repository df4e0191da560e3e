"""Open a session: read a task's text and the facts of a model, before anything is computed."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from probekit.backbone import Backbone, Inspection, choose_device, inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.backbone.remembered import inspect_and_remember
from probekit.base.kinds import OUTPUT_HEAD
from probekit.base.machine.buffers import ReusedMemory
from probekit.data.encoded import EncodedSplit
from probekit.errors import DataError, MissingFileError, OptionError
from probekit.extraction.compute import Progress
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import describe_cuts
from probekit.extraction.extract_target import ExtractTarget
from probekit.extraction.request import ask_model, choose_max_length
from probekit.extraction.request_options import ExtractOptions
from probekit.probe.model_parts.output_head import OutputHead
from probekit.tasks import Split, Task, examples_task, get_task, is_own
from probekit.tasks.text_options import Choice

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
        encoded = self.inspection.encode(
            split.examples, max_length=limit, overlong=options.overlong, masking=masking
        )
        counts = encoded.counts
        if masking is not None and not counts["predicted"]:
            every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
            raise DataError(
                f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too "
                "short or too few."
            )
        if cuts := describe_cuts(split.name, counts, limit):
            logger.warning("%s", cuts)
        return encoded


def open_session(
    target: ExtractTarget,
    options: ExtractOptions | None = None,
    *,
    progress: bool = False,
    heard: Callable[[int], object] = lambda count: None,
) -> tuple[Session, list[Split]]:
    """Read a task's text and the model's facts; nothing is computed yet.

    Errors are those of `extract`.

    Args:
        target: model and task, and where entries go.
        options: what is asked for.
        progress: show progress on stderr.
        heard: called with the number of subwords that were just read.

    Returns:
        the session and the splits, in their order.
    """
    options = options or ExtractOptions()
    task = read_task(target)
    inspection = inspect_target(target, options)
    texts = read_texts(target, task, options.limit)
    request = ask_model(inspection, task, options)
    device = choose_device(inspection, target.device)
    reused = ReusedMemory(pinned=device.startswith("cuda"))
    listener = Progress(progress, heard)
    session = Session(
        target=target, request=request, inspection=inspection, device=device, reused=reused,
        progress=listener,
    )  # fmt: skip
    return session, texts


def read_task(target: ExtractTarget) -> Task:
    """Return the task that is meant.

    Raises:
        OptionError: a folder of published files for data of the user's own.
    """
    if target.examples is None:
        task = get_task(target.task, target.own, target.label)
    else:
        choice = Choice(label=target.label, **target.own.given)
        task = examples_task(target.examples, target.task, choice)
    if target.data is not None and is_own(task):
        raise OptionError(f"{target.task} is the data already; leave --data {target.data} out.")
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
            f"--revision {target.revision} is of a repository of the Hub, and the model is given "
            "in memory. Leave it out."
        )
    inspection = inspect_backbone(target.given, **how)
    target.check_name(inspection.info.identity.to_json())
    return inspection


def read_texts(target: ExtractTarget, task: Task, limit: int | None) -> list[Split]:
    """Read the splits that are asked for; of all, those that are there.

    Raises:
        OptionError: none is asked for.
        MissingFileError: one is not there, or none is.
    """
    if target.splits is not None and not target.splits:
        raise OptionError(f"--split names no split of {task.name}: {', '.join(task.splits)}.")
    texts: list[Split] = []
    missing: list[MissingFileError] = []
    for name in task.splits if target.splits is None else target.splits:
        try:
            texts.append(task.read(name, target.data).first(limit))
        except MissingFileError as error:
            if target.splits is not None:
                raise
            missing.append(error)
    if not texts:
        raise missing[0]
    for reason in missing:
        logger.info("left out: %s", reason)
    return texts
