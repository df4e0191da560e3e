"""Before units are computed: is there room, how fast is the model, what will be lost to limits."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from probekit.backbone import StateSource, states_at
from probekit.base.kinds import TOKENS
from probekit.base.notices import human_bytes, human_time, short_time
from probekit.data.batches import TokenBatch
from probekit.data.encoded import EncodedSplit
from probekit.data.token_choice import ROLES
from probekit.errors import DataError, OptionError
from probekit.extraction.compute import batches_of
from probekit.extraction.extract_target import EntryAddress
from probekit.extraction.plan import Plan
from probekit.extraction.units import Unit
from probekit.store.files import check_room, disk_bytes
from probekit.store.layout import PARTIAL, beside
from probekit.tasks import Split

_MOST_TOKENS = 512
"""Tokens of the measured pass on a CPU, where more take long and go no faster."""

_LEAST_TOKENS = 128
"""The same where so many are a large part of the entry; fewer would go slower than a batch does."""


def tokens_per_second(backbone: StateSource, plan: Plan, *, share: float = 1.0) -> float:
    """Measure the forward pass on some of the entry's own sentences of middling length.

    Args:
        backbone: the frozen model.
        plan: of the entry.
        share: of the entry's tokens, how many are measured on a CPU: 128 at least, 512 at most,
            after a warm-up with a quarter as many. Elsewhere it is a batch.
    """
    batches = batches_of(backbone, plan, plan.largest_first[0])
    batch = batches[len(batches) // 2]
    count = len(batch.lengths)
    if backbone.device.type == "cpu":
        most = min(_MOST_TOKENS, max(int(share * plan.tokens), _LEAST_TOKENS))
        count = min(count, max(1, most // batch.input_ids.shape[1]))
    # a few first: they pay for allocation and kernel selection
    run_pass(backbone, plan, batch, -(-count // 4))
    seconds = seconds_of(lambda: run_pass(backbone, plan, batch, count))
    return int(batch.lengths[:count].sum()) / seconds


def run_pass(backbone: StateSource, plan: Plan, batch: TokenBatch, count: int) -> None:
    """Take the states of the first windows of a batch, and wait for them."""
    states = [*states_at(backbone, batch.first(count), plan.layers).values()]
    states[-1][0, 0, 0].item()  # an accelerator returns before it is done; this waits for it


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def describe_work(
    title: str, plan: Plan, units: Sequence[Unit], folder: Path, speed: float, begun: float
) -> str:
    """Return one line for people: what is read, what is written and where, and the time it takes.

    Args:
        title: the split's name, and which shard this is.
        plan: the layout.
        units: those that are written.
        folder: the entry's folder.
        speed: of the forward pass, tokens per second as measured.
        begun: share of their subwords that an earlier run has done.
    """
    # "12,345 words x 7 layers x 384 and 23,456 tokens x 1 layer x 384"
    arrays = " and ".join(
        f"{plan.encoded.rows[name].sum():,} {name} x {len(array.layers)} "
        f"layer{'' if len(array.layers) == 1 else 's'} x {array.dim}"
        for name, array in plan.arrays.items()
    )
    some = "" if len(units) == len(plan.units) else f"{len(units)} of {len(plan.units)} units of "
    tokens = [plan.unit_tokens(unit) for unit in units]
    seconds, largest = (1 - begun) * sum(tokens) / speed, max(tokens, default=0) / speed
    of_units = f", units of {short_time(largest)}" if len(units) > 1 else ""
    there = f"; {begun:.0%} of it is there already" if begun >= 0.005 else ""
    return (
        f"{title}: {len(plan.encoded.ids):,} examples; writing {some}{arrays} "
        f"({human_bytes(plan.nbytes)}) to {folder} in about "
        f"{human_time(seconds)} ({speed:,.0f} tokens/s{of_units}){there}"
    )


def check_conversations(split: Split, *, predicted: bool, only: str | None) -> None:
    """Refuse conversations where plain text is read, and the other way round.

    Args:
        split: of texts.
        predicted: whether its tokens are predicted.
        only: which of them are kept.

    Raises:
        DataError: conversations for language modelling.
        OptionError: tokens of a role are kept, and the texts are no conversations.
    """
    if predicted and split.of_conversations:
        raise DataError(
            f"{split.origin}: language modelling reads plain text, and these are conversations. "
            "Put what is to be read into a column of text."
        )
    if only in ROLES and not split.of_conversations:
        raise OptionError(
            f"--only {only} chooses messages of conversations, but the texts of {split.origin} are "
            "not conversations (lists of messages with role and content). Leave --only out."
        )


def describe_without(split: Split, encoded: EncodedSplit, only: str) -> str:
    """Return of how many texts ``--only`` keeps no token, in words; nothing where there are none.

    Raises:
        DataError: it keeps none at all.
    """
    none, count = int((encoded.rows[TOKENS] == 0).sum()), len(split.examples)
    if none == count:
        raise DataError(f"{split.origin}: --only {only} keeps no token of any text.")
    said = f"{split.title}: --only {only} keeps no token of {none} of {count} texts; "
    return f"{said}their row is zeros." if none else ""


def describe_cuts(split: str, counts: Mapping[str, int], limit: int) -> str | None:
    """Return what a split loses to the limit, for people; None if it loses nothing.

    Args:
        split: the split's name.
        counts: of its manifest.
        limit: most subwords of a window.
    """
    if texts := counts.get("truncated_examples"):
        return f"{split}: {texts:,} of {counts['examples']:,} texts are cut at {limit} subwords."
    if words := counts.get("truncated_words"):
        return (
            f"{split}: {words:,} of {counts['words']:,} words do not fit into windows of {limit} "
            "subwords. A word that is cut has the states of the rest of it. One that is cut off "
            "whole has a row of zeros: no head is trained on it, but scores count it."
        )
    return None


def missing_bytes(plan: Plan, address: EntryAddress) -> int:
    """Return the bytes of an entry that are still to be written."""
    # What is unfinished is there already when the build is resumed, and given back when it begins
    # afresh.
    return plan.nbytes - disk_bytes(beside(address.folder, PARTIAL))


def check_free_space(folder: Path, needed: int) -> None:
    """Refuse to start when the disk cannot hold the entry; see `check_room`."""
    check_room(
        folder,
        needed,
        "this extraction",
        "choose another --cache, or store less (--dtype int8 halves it; see also --layers and "
        "--limit)",
    )
