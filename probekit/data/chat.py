"""Conversations as a model's own chat template writes them, and where each message stands."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from probekit.errors import BackboneError, DataError, reason_of

Turn = tuple[str, int, int]
"""A role, and where the content of its message begins and ends (excluded), in characters."""


@dataclass(frozen=True)
class Rendered:
    """A conversation as the model reads it.

    Attributes:
        text: special tokens included, as they are written.
        turns: where each message stands.
    """

    text: str
    turns: tuple[Turn, ...]


def require_template(tokenizer: PreTrainedTokenizerBase, model: str) -> None:
    """Refuse a tokenizer without a chat template.

    Raises:
        BackboneError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise BackboneError(
            f"model {model!r}: its tokenizer has no chat template, so it cannot read conversations "
            "(lists of messages with role and content). Choose a chat model, or put each "
            "conversation into a column of plain text."
        )


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]], name: str
) -> Rendered:
    """Write a conversation by the tokenizer's chat template, without a prompt for an answer.

    Args:
        tokenizer: one that has a template.
        messages: with ``role`` and ``content``.
        name: of the example, for messages.

    Raises:
        DataError: the template refuses the conversation, or leaves a message out.
    """
    text = _apply(tokenizer, messages, name)
    # with a sign of its own in place of each content, the template shows where contents go
    filled = [m for m in messages if (m.get("content") or "").strip()]
    signs = {id(m): f"\ue000{number}\ue001" for number, m in enumerate(filled)}
    marked = [{**m, "content": signs.get(id(m), m.get("content"))} for m in messages]
    turns = _by_signs(_apply(tokenizer, marked, name), text, [*signs.values()], filled)
    return Rendered(text, _by_search(text, filled, name) if turns is None else turns)


def _apply(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]], name: str
) -> str:
    try:
        text = tokenizer.apply_chat_template([dict(m) for m in messages], tokenize=False)
    except Exception as error:  # a template raises whatever its author chose
        raise DataError(
            f"{name}: the model's chat template refuses this conversation ({reason_of(error)})."
        ) from error
    return str(text)


def _by_signs(
    marked: str, text: str, signs: Sequence[str], messages: Sequence[Mapping[str, Any]]
) -> tuple[Turn, ...] | None:
    """Return where contents stand; None if the template treats them by what they are."""
    turns, at, behind = list[Turn](), 0, marked
    for sign, message in zip(signs, messages, strict=True):
        before, found, behind = behind.partition(sign)
        at += len(before)
        written = (message["content"], message["content"].strip())
        content = next((form for form in written if text.startswith(form, at)), None)
        if not found or content is None or not text.startswith(before, at - len(before)):
            return None
        turns.append((message["role"], at, at + len(content)))
        at += len(content)
    return tuple(turns) if text[at:] == behind else None


def _by_search(text: str, messages: Sequence[Mapping[str, Any]], name: str) -> tuple[Turn, ...]:
    """Return where contents stand, if nothing else in the text reads like one of them."""
    turns, at = list[Turn](), 0
    contents = Counter(message["content"].strip() for message in messages)
    for message in messages:
        content = message["content"].strip()
        start = text.find(content, at)
        if start < 0 or text.count(content) != contents[content]:
            raise DataError(
                f"{name}: the model's chat template does not write messages as they are, so the "
                f"tokens of {content[:40]!r} ({message['role']}) cannot be told from others."
            )
        at = start + len(content)
        turns.append((message["role"], start, at))
    return tuple(turns)
