"""Conversations as a model's own chat template writes them, and where each message stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def check_template(tokenizer: PreTrainedTokenizerBase, model: str) -> None:
    """Refuse a tokenizer without a chat template.

    Raises:
        BackboneError: it is one.
    """
    if not tokenizer.chat_template:
        raise BackboneError(
            f"model {model!r}: its tokenizer has no chat template, so it cannot read conversations "
            "(lists of messages with role and content). Choose a chat model, or put each "
            "conversation into a column of plain text."
        )


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], name: str
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
    signs = [f"\ue000{number}\ue001" for number in range(len(messages))]
    marked = [{**m, "content": sign} for m, sign in zip(messages, signs, strict=True)]
    turns = _by_signs(_apply(tokenizer, marked, name), text, signs, messages)
    return Rendered(text, turns or _by_search(text, messages, name))


def _apply(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], name: str
) -> str:
    try:
        text = tokenizer.apply_chat_template([dict(m) for m in messages], tokenize=False)
    except Exception as error:  # a template raises whatever its author chose
        raise DataError(
            f"{name}: the model's chat template refuses this conversation ({reason_of(error)})."
        ) from error
    return str(text)


def _by_signs(
    marked: str, text: str, signs: Sequence[str], messages: Sequence[Mapping[str, str]]
) -> tuple[Turn, ...]:
    """Return where contents stand; nothing if the template treats them by what they are."""
    turns, at, behind = list[Turn](), 0, marked
    for sign, message in zip(signs, messages, strict=True):
        before, found, behind = behind.partition(sign)
        at += len(before)
        written = (message["content"], message["content"].strip())
        content = next((form for form in written if text.startswith(form, at)), None)
        if not found or content is None or not text.startswith(before, at - len(before)):
            return ()
        turns.append((message["role"], at, at + len(content)))
        at += len(content)
    return tuple(turns) if text[at:] == behind else ()


def _by_search(text: str, messages: Sequence[Mapping[str, str]], name: str) -> tuple[Turn, ...]:
    """Return where contents stand, each after the one before it."""
    turns, at = list[Turn](), 0
    for message in messages:
        content = message["content"].strip()
        if (start := text.find(content, at)) < 0:
            raise DataError(
                f"{name}: the model's chat template does not write a message of the role "
                f"{message['role']!r} as it is, so its tokens cannot be told from others."
            )
        at = start + len(content)
        turns.append((message["role"], start, at))
    return tuple(turns)
