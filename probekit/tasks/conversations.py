"""Conversations as the text of an example: JSON of their messages, whatever file they came in."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from probekit.errors import DataError

_SHAREGPT_ROLES = {"human": "user", "gpt": "assistant"}
"""ShareGPT's names of the roles, in messages with ``from`` and ``value``."""


def conversation_text(value: Any) -> str | None:
    """Return the text of a conversation; None of any other value.

    Args:
        value: a list of messages, each with its ``role`` and ``content`` (or ``from`` and
            ``value``); a content may be a list of texts, or null beside ``tool_calls``. What else
            they say is kept, since a chat template may write it.
    """
    messages = _messages(value)
    if messages is None:
        return None
    try:
        return json.dumps(messages, ensure_ascii=False)
    except (TypeError, ValueError):
        return None


def messages_of(text: str) -> list[dict[str, Any]] | None:
    """Return the messages of a conversation; None of a text that is none."""
    if not text.startswith("[{"):
        return None
    try:
        return _messages(json.loads(text))
    except ValueError:
        return None


def readable(text: str) -> str:
    """Return a conversation as people write one down, a message a line; any other text as it is."""
    messages = messages_of(text) or ()
    return "\n".join(f"{m['role']}: {m['content'] or ''}" for m in messages) or text


def are_conversations(texts: Sequence[str | None]) -> bool:
    """Say whether texts are conversations, all of them.

    Raises:
        DataError: some are, and some are not.
    """
    known = [text is not None and messages_of(text) is not None for text in texts]
    if any(known) and not all(known):
        raise DataError(
            f"{sum(known)} of {len(known)} texts are conversations, such as text "
            f"{known.index(True) + 1}, and the others are not, such as text "
            f"{known.index(False) + 1}. Keep them in data sets of their own."
        )
    return any(known)


def _messages(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list | tuple) or not value:
        return None
    messages = [_message(item) for item in value]
    whole = [message for message in messages if message is not None]
    return whole if len(whole) == len(messages) else None


def _message(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, Mapping):
        return None
    role, content, said = item.get("role"), item.get("content"), dict(item)
    if role is None and content is None:
        role, content = said.pop("from", None), said.pop("value", None)
        role = _SHAREGPT_ROLES.get(str(role), role)
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "".join(map(str, parts)) if len(parts) == len(content) and all(parts) else None
    calls = content is None and bool(item.get("tool_calls"))
    if not isinstance(role, str) or not (calls or isinstance(content, str)):
        return None
    named = {name: value for name, value in said.items() if value is not None}  # Arrow fills up
    return {**named, "role": role, "content": content}
